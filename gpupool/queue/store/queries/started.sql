-- Attempts that run, as far as they are still dispatched.
WITH given AS (
    SELECT * FROM unnest(%(ids)s::uuid[], %(attempts)s::int[], %(times)s::timestamptz[], %(nodes)s::text[],
        %(node_times)s::timestamptz[], %(types)s::text[], %(rates)s::bigint[])
        AS g (job, attempt, now, node, node_at, capacity_type, rate_micro)
), started AS (
    UPDATE gpu_jobs j SET state = 'running', started_at = g.now, waiting = NULL, version = version + 1, seq = seq + 1,
        capacity_type = coalesce(g.capacity_type, j.capacity_type), rate_micro = coalesce(g.rate_micro, j.rate_micro)
    FROM given g
    WHERE j.id = g.job AND j.attempt = g.attempt AND j.state = 'scheduled'
    RETURNING j.*, g.node, g.node_at
), attempts AS (
    UPDATE gpu_attempts a SET started_at = s.started_at, node = coalesce(s.node, a.node),
        capacity_type = s.capacity_type, rate_micro = s.rate_micro FROM started s
    WHERE a.job = s.id AND a.attempt = s.attempt
)
INSERT INTO gpu_events (job, seq, type, tenant, project, pool, at, data)
SELECT id, seq, 'started', tenant, project, pool, started_at,
    jsonb_strip_nulls(jsonb_build_object('state', state, 'attempt', attempt, 'executor', executor,
        'node', node, 'node_at', node_at))
FROM started
RETURNING job, (data ->> 'attempt')::int AS attempt
