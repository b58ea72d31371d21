WITH started AS (
    UPDATE gpu_jobs SET state = 'running', started_at = %(now)s, waiting = NULL, version = version + 1, seq = seq + 1
    WHERE id = %(job)s::uuid AND attempt = %(attempt)s AND state = 'dispatching'
    RETURNING *
), attempt AS (
    UPDATE gpu_attempts a SET started_at = s.started_at, node = coalesce(%(node)s::text, node) FROM started s
    WHERE a.job = s.id AND a.attempt = s.attempt
)
INSERT INTO gpu_events (job, seq, type, tenant, project, pool, at, data)
SELECT id, seq, 'started', tenant, project, pool, started_at,
    jsonb_strip_nulls(jsonb_build_object('state', state, 'attempt', attempt, 'executor', executor,
        'node', %(node)s::text, 'node_at', %(node_at)s::timestamptz))
FROM started
RETURNING job
