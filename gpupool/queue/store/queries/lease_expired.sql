-- An attempt whose lease is still the one that has not been renewed; locked, so that it can't be renewed now.
SELECT id, attempt, ran FROM gpu_jobs
WHERE id = %(job)s::uuid AND attempt = %(attempt)s AND lease_until = %(until)s
    AND state IN ('scheduled', 'running')
FOR UPDATE SKIP LOCKED
