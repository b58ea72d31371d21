-- One held job whose executor has not renewed its lease; locked, so that it can't renew it now.
SELECT id, attempt FROM gpu_jobs
WHERE state IN ('dispatching', 'running') AND lease_until < coalesce(%(now)s::timestamptz, now())
ORDER BY lease_until LIMIT 1 FOR UPDATE SKIP LOCKED
