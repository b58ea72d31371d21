SELECT id, job, seq, type, tenant, project, pool, at, data, position FROM gpu_events
WHERE position > %(position)s AND (%(tenants)s::text[] IS NULL OR tenant = ANY(%(tenants)s::text[]))
ORDER BY position LIMIT %(limit)s
