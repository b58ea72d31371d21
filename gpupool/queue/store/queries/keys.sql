SELECT * FROM gpu_keys ORDER BY created_at, id
