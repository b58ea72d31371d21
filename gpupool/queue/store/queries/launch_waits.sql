-- Why an attempt that is dispatched does not run yet, or why nothing is heard of one that runs.
UPDATE gpu_jobs SET waiting = %(waiting)s::jsonb, version = version + 1
WHERE id = %(job)s::uuid AND attempt = %(attempt)s AND state IN ('dispatching', 'running')
    AND waiting IS DISTINCT FROM %(waiting)s::jsonb
