DELETE FROM gpu_callbacks WHERE job = %(job)s::uuid
