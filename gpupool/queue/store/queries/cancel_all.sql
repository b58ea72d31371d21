-- Jobs of a tenant that a filter selects: queued ones end at once, held ones are asked to stop. Queued ones and the latest
-- first, so that none of them starts in a place that becomes free. What another transaction is changing is passed
-- over: `matching` says how many there were.
WITH matching AS MATERIALIZED (
    SELECT id FROM gpu_jobs j
    WHERE j.tenant = %(tenant)s AND j.state = ANY(%(states)s::text[]) AND NOT j.cancel_requested
        AND (%(project)s::text IS NULL OR j.project = %(project)s::text)
        AND (%(pool)s::text IS NULL OR j.pool = %(pool)s::text)
        AND (%(user)s::text IS NULL OR j.user_name = %(user)s::text)
        AND (%(name)s::text IS NULL OR j.name = %(name)s::text)
        AND (%(group)s::uuid IS NULL OR j.group_id = %(group)s::uuid)
    ORDER BY j.state = 'queued' DESC, j.enqueued_at DESC, j.id DESC LIMIT %(limit)s::int + 1
), picked AS MATERIALIZED (
    SELECT j.id FROM gpu_jobs j
    WHERE j.id IN (SELECT id FROM matching LIMIT %(limit)s::int) AND j.finished_at IS NULL
    FOR UPDATE SKIP LOCKED
), ended AS (
    UPDATE gpu_jobs j SET
        state = 'cancelled', reason = %(reason)s, finished_at = %(now)s, waiting = NULL, not_before = NULL,
        blocked = false, version = version + 1, seq = seq + 1
    FROM picked p WHERE j.id = p.id AND j.state = 'queued'
    RETURNING j.*
), event AS (
    INSERT INTO gpu_events (job, seq, type, tenant, project, at, data)
    SELECT id, seq, state, tenant, project, finished_at,
        jsonb_build_object('state', state, 'attempt', attempt, 'reason', reason, 'by', %(by)s::text)
    FROM ended
), asked AS (
    UPDATE gpu_jobs j SET cancel_requested = true, reason = %(reason)s, version = version + 1
    FROM picked p WHERE j.id = p.id AND j.state IN ('scheduled', 'running')
    RETURNING j.*
)
SELECT id, state, group_id, NULL::bigint AS matching FROM ended
UNION ALL
SELECT id, state, group_id, NULL FROM asked
UNION ALL
SELECT NULL, NULL, NULL, count(*) FROM matching
