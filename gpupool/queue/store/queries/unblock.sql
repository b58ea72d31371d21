UPDATE gpu_jobs SET blocked = false, waiting = NULL, version = version + 1
WHERE depends_on = %(id)s::uuid AND blocked AND state = 'queued'
RETURNING id
