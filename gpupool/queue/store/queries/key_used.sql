-- At most once a minute, so that reading a key seldom writes.
UPDATE gpu_keys SET last_used_at = %(now)s
WHERE id = %(id)s AND (last_used_at IS NULL OR last_used_at < %(now)s::timestamptz - interval '1 minute')
