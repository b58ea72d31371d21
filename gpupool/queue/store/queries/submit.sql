-- All of one request in one statement: its key, jobs, events and lanes, and the count of the tenant's queued jobs.
-- No row where the key is taken; an error where the limit does not allow the jobs. `cause`: why a job that
-- they depend on did not succeed. The tenant's count is locked last, and so for as short as can be.
WITH key AS (
    INSERT INTO gpu_idempotency (tenant, key, fingerprint, job_ids, created_at)
    SELECT %(tenant)s, %(key)s, %(fingerprint)s, %(ids)s::uuid[], %(now)s WHERE %(key)s::text IS NOT NULL
    ON CONFLICT (tenant, key) DO NOTHING
    RETURNING 1
), given AS (
    SELECT * FROM jsonb_to_recordset(%(jobs)s::jsonb) AS g (
        id uuid, tenant text, project text, user_name text, name text, group_id uuid, group_index int,
        retries int, priority text, level smallint, isolation text, gpu_count int, preemptible boolean,
        preempts boolean, request jsonb, offers jsonb, lane text, timeout_s int, budget_limit_micro bigint,
        depends_on uuid[], depends_on_ended uuid[], blocked boolean, cause jsonb, deadline_at timestamptz,
        plan_hash text, enqueued_at timestamptz, waits text)
    WHERE %(key)s::text IS NULL OR EXISTS (SELECT FROM key)
), added AS (
    INSERT INTO gpu_jobs (
        id, tenant, project, user_name, name, group_id, group_index, state, seq, retries, priority, level,
        isolation, gpu_count, preemptible, preempts, request, offers, lane, timeout_s, budget_limit_micro,
        depends_on, depends_on_ended, blocked, enqueued_at, deadline_at, finished_at, reason, cause, waiting, plan_hash)
    SELECT
        id, tenant, project, user_name, name, group_id, group_index,
        CASE WHEN cause IS NULL THEN 'queued' ELSE 'cancelled' END,
        CASE WHEN cause IS NULL THEN 1 ELSE 2 END,
        retries, priority, level, isolation, gpu_count, preemptible, preempts, request, offers, lane, timeout_s,
        budget_limit_micro, depends_on, depends_on_ended, blocked, enqueued_at, deadline_at,
        CASE WHEN cause IS NOT NULL THEN enqueued_at END,
        CASE WHEN cause IS NOT NULL THEN 'dependency' END,
        cause,
        CASE WHEN blocked THEN jsonb_build_object('reason', 'dependency', 'detail', waits) END,
        plan_hash
    FROM given
    RETURNING id, tenant, project, state, lane, offers, level, blocked, priority, isolation, enqueued_at, cause
), events AS (
    INSERT INTO gpu_events (job, seq, type, tenant, project, at, data)
    SELECT a.id, e.seq, e.type, a.tenant, a.project, a.enqueued_at,
        jsonb_build_object('state', e.state, 'attempt', 0, 'priority', a.priority, 'isolation', a.isolation)
            || CASE e.seq WHEN 1 THEN '{}' ELSE
                jsonb_build_object('reason', 'dependency', 'depends_on', a.cause -> 'parent', 'cause', a.cause) END
    FROM added a
    JOIN (VALUES
        (1, 'enqueued', 'queued'),
        (2, 'cancelled', 'cancelled')) AS e (seq, type, state)
        ON e.seq = 1 OR a.state = 'cancelled'
    ORDER BY a.enqueued_at, a.id, e.seq
), lanes AS (
    INSERT INTO gpu_lanes (tenant, lane, offers, level)
    SELECT DISTINCT ON (tenant, lane) tenant, lane, offers, level FROM added WHERE state = 'queued' AND NOT blocked
    ON CONFLICT DO NOTHING
    RETURNING 1
), wanted AS (
    SELECT count(*)::int AS jobs FROM added WHERE state = 'queued' AND (SELECT count(*) FROM lanes) >= 0
), counted AS (
    INSERT INTO tenant_gpu_policies AS p (tenant, queued)
    SELECT %(tenant)s, jobs FROM wanted WHERE jobs > 0
    ON CONFLICT (tenant) DO UPDATE SET queued = p.queued + excluded.queued
    RETURNING queued
)
SELECT gpu_within_limit(queued, %(limit)s::int) FROM counted
UNION ALL
SELECT true FROM wanted, added WHERE jobs = 0
