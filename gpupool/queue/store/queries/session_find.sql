SELECT s.token, k.*
FROM gpu_sessions s LEFT JOIN gpu_keys k ON k.id = s.key_id
WHERE s.hash = %(hash)s AND s.ends_at > %(now)s AND s.ended_at IS NULL
