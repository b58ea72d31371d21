-- Idle attempts, whichever are still as they were seen: an event each, an alert where there is a channel, and
-- where they are to stop, the request for it. It is that of a preemption, with the outcome that follows.
-- An alert's threshold is the attempt.
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(found)s::jsonb) AS g (
        job uuid, version int, used float8, reason text, alert text)
), changed AS (
    UPDATE gpu_jobs j SET
        version = j.version + 1, seq = j.seq + 1,
        preempt_reason = coalesce(j.preempt_reason, CASE WHEN %(action)s::text = 'stop' THEN
            jsonb_build_object('reason', g.reason, 'outcome', 'failed') END)
    FROM given g
    WHERE j.id = g.job AND j.version = g.version AND j.state = 'running'
    RETURNING j.id, j.seq, j.attempt, j.state, j.tenant, j.project, j.pool, g.used, g.reason, g.alert
), event AS (
    INSERT INTO gpu_events (job, seq, type, tenant, project, pool, at, data)
    SELECT id, seq, 'idle', tenant, project, pool, %(now)s, jsonb_build_object(
        'state', state, 'attempt', attempt, 'action', %(action)s::text, 'used', used, 'reason', reason)
    FROM changed
), alert AS (
    INSERT INTO gpu_alerts (scope, name, period, threshold, spent_micro, limit_micro, due_at, text)
    SELECT 'job', id || ' ' || %(action)s::text, %(now)s::date, attempt, 0, 0, %(now)s, alert
    FROM changed WHERE %(alerts)s
    ON CONFLICT DO NOTHING
)
SELECT id, attempt FROM changed
