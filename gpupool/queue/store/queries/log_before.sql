SELECT coalesce(max(number), 0) AS number FROM gpu_logs WHERE job = %(job)s::uuid AND at < %(at)s
