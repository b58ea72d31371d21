INSERT INTO gpu_sessions (hash, key_id, token, link, ends_at)
VALUES (%(hash)s, %(key_id)s, %(token)s, %(link)s, %(ends_at)s)
ON CONFLICT (link) DO NOTHING
RETURNING hash
