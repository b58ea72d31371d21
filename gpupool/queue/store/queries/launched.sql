-- The Jobs of these attempts exist.
WITH given AS (
    SELECT * FROM unnest(%(ids)s::uuid[], %(attempts)s::int[], %(names)s::text[], %(times)s::timestamptz[])
        AS g (job, attempt, name, at)
), locked AS (  -- jobs before their attempts, as an end does
    SELECT g.* FROM given g JOIN gpu_jobs j ON j.id = g.job
    ORDER BY g.job FOR UPDATE OF j
), attempts AS (
    UPDATE gpu_attempts a SET launched_at = g.at FROM locked g
    WHERE a.job = g.job AND a.attempt = g.attempt AND a.launched_at IS NULL AND a.finished_at IS NULL
    RETURNING a.job, g.name, g.at
), jobs AS (
    UPDATE gpu_jobs j SET version = version + 1, seq = seq + 1 FROM attempts a
    WHERE j.id = a.job AND j.state IN ('scheduled', 'running')
    RETURNING j.*, a.name AS launched, a.at AS launched_at
)
INSERT INTO gpu_events (job, seq, type, tenant, project, pool, at, data)
SELECT id, seq, 'launched', tenant, project, pool, launched_at,
    jsonb_build_object('state', state, 'attempt', attempt, 'kubernetes_job', launched)
FROM jobs
