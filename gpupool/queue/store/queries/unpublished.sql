SELECT id, job, seq, type, tenant, project, pool, at, data, position FROM gpu_events
WHERE position > (SELECT published FROM gpu_event_stream)
ORDER BY position LIMIT %(limit)s
