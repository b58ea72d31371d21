-- What has run once, and was queued again, is not thrown away.
SELECT id, tenant FROM gpu_jobs j WHERE state = 'queued' AND deadline_at <= %(now)s
    AND NOT EXISTS (SELECT FROM gpu_attempts a WHERE a.job = j.id AND a.started_at IS NOT NULL)
ORDER BY deadline_at LIMIT %(limit)s
