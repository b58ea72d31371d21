SELECT * FROM gpu_keys WHERE id = %(id)s
