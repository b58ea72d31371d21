UPDATE gpu_jobs SET cancel_requested = true, reason = %(reason)s, version = version + 1
WHERE id = %(id)s::uuid AND state IN ('scheduled', 'running') AND NOT cancel_requested
RETURNING *
