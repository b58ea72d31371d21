SELECT logged_until FROM gpu_attempts WHERE job = %(job)s::uuid AND attempt = %(attempt)s
