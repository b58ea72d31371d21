-- Jobs of one request with their events and lanes. `cancelled`: the job that they depend on did not succeed.
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(jobs)s::jsonb) AS g (
        id uuid, tenant text, project text, user_name text, name text, group_id uuid, group_index int,
        retries int, priority text, level smallint, isolation text, gpu_count int, preemptible boolean,
        preempts boolean, request jsonb, offers jsonb, lane text, timeout_s int, budget_limit_micro bigint,
        depends_on uuid, blocked boolean, cancelled boolean, deadline_at timestamptz, plan_hash text,
        enqueued_at timestamptz)
), added AS (
    INSERT INTO gpu_jobs (
        id, tenant, project, user_name, name, group_id, group_index, state, seq, retries, priority, level,
        isolation, gpu_count, preemptible, preempts, request, offers, lane, timeout_s, budget_limit_micro,
        depends_on, blocked, enqueued_at, deadline_at, finished_at, reason, waiting, plan_hash)
    SELECT
        id, tenant, project, user_name, name, group_id, group_index,
        CASE WHEN cancelled THEN 'cancelled' ELSE 'queued' END,
        CASE WHEN cancelled THEN 2 ELSE 1 END,
        retries, priority, level, isolation, gpu_count, preemptible, preempts, request, offers, lane, timeout_s,
        budget_limit_micro, depends_on, blocked, enqueued_at, deadline_at,
        CASE WHEN cancelled THEN enqueued_at END,
        CASE WHEN cancelled THEN 'dependency' END,
        CASE WHEN blocked THEN
            jsonb_build_object('reason', 'dependency', 'detail', 'waits for job ' || depends_on) END,
        plan_hash
    FROM given
    RETURNING id, tenant, project, state, lane, offers, level, blocked, priority, isolation, enqueued_at
), lanes AS (
    INSERT INTO gpu_lanes (tenant, lane, offers, level)
    SELECT DISTINCT ON (tenant, lane) tenant, lane, offers, level FROM added WHERE state = 'queued' AND NOT blocked
    ON CONFLICT DO NOTHING
), enqueued AS (
    INSERT INTO gpu_events (job, seq, type, tenant, project, at, data)
    SELECT id, 1, 'enqueued', tenant, project, enqueued_at,
        jsonb_build_object('state', 'queued', 'attempt', 0, 'priority', priority, 'isolation', isolation)
    FROM added
    ORDER BY enqueued_at, id
)
INSERT INTO gpu_events (job, seq, type, tenant, project, at, data)
SELECT id, 2, 'cancelled', tenant, project, enqueued_at,
    jsonb_build_object('state', 'cancelled', 'attempt', 0, 'reason', 'dependency')
FROM added WHERE state = 'cancelled'
