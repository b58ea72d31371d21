SELECT id, job, seq, type, tenant, project, pool, at, data, position FROM gpu_events
WHERE position IS NOT NULL AND published_at IS NULL
ORDER BY position LIMIT %(limit)s
