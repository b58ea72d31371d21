-- What waits for these jobs and arrays: it waits no longer where all have ended as they must, and is cancelled
-- where one did not succeed, with the cause. `ending` ends within this transaction, and is not written yet.
WITH dependent AS MATERIALIZED (
    SELECT id, depends_on, depends_on_ended FROM gpu_jobs
    WHERE blocked AND state = 'queued' AND (depends_on || depends_on_ended) && %(targets)s::uuid[]
), decided AS MATERIALIZED (
    SELECT * FROM (SELECT DISTINCT depends_on, depends_on_ended FROM dependent) s
    CROSS JOIN LATERAL gpu_dependency(
        s.depends_on, s.depends_on_ended, %(ending)s::jsonb) d
    WHERE d.cause IS NOT NULL OR NOT d.waits
), settled AS (
    UPDATE gpu_jobs j SET
        blocked = false, version = j.version + 1,
        waiting = CASE WHEN d.cause IS NULL AND j.offers = '[]' THEN j.waiting END,
        state = CASE WHEN d.cause IS NULL THEN j.state ELSE 'cancelled' END,
        reason = CASE WHEN d.cause IS NULL THEN j.reason ELSE 'dependency' END,
        cause = d.cause,
        finished_at = CASE WHEN d.cause IS NOT NULL THEN %(now)s::timestamptz END,
        seq = CASE WHEN d.cause IS NULL THEN j.seq ELSE j.seq + 1 END
    FROM dependent w JOIN decided d USING (depends_on, depends_on_ended)
    WHERE j.id = w.id AND j.blocked AND j.state = 'queued'
    RETURNING j.*
), event AS (
    INSERT INTO gpu_events (job, seq, type, tenant, project, at, data)
    SELECT id, seq, 'cancelled', tenant, project, finished_at,
        jsonb_build_object('state', state, 'attempt', attempt, 'reason', reason, 'depends_on', cause -> 'parent',
            'cause', cause)
    FROM settled WHERE state = 'cancelled'
)
SELECT id, tenant, group_id, state FROM settled
