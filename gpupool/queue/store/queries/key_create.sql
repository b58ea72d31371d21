INSERT INTO gpu_keys (id, hash, name, tenants, scopes, created_at, expires_at)
VALUES (%(id)s, %(hash)s, %(name)s, %(tenants)s, %(scopes)s, %(now)s, %(expires_at)s)
