SELECT status, headers, body, truncated FROM gpu_results WHERE job = %(job)s::uuid
