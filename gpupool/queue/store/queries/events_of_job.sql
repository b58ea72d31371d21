SELECT id, job, seq, type, tenant, project, pool, at, data, position FROM gpu_events
WHERE job = %(job)s::uuid ORDER BY seq
