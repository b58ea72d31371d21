SELECT id FROM gpu_jobs
WHERE id = %(job)s::uuid AND attempt = %(attempt)s AND state IN ('scheduled', 'running')
