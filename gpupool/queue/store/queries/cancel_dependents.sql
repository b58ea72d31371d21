-- What waits for jobs that did not succeed.
WITH ended AS (
    UPDATE gpu_jobs SET
        state = 'cancelled', reason = 'dependency', finished_at = %(now)s, waiting = NULL, not_before = NULL,
        blocked = false, version = version + 1, seq = seq + 1
    WHERE depends_on = ANY(%(ids)s::uuid[]) AND blocked AND state = 'queued'
    RETURNING *
), event AS (
    INSERT INTO gpu_events (job, seq, type, tenant, project, at, data)
    SELECT id, seq, 'cancelled', tenant, project, finished_at,
        jsonb_build_object('state', state, 'attempt', attempt, 'reason', reason, 'depends_on', depends_on)
    FROM ended
)
SELECT id, tenant FROM ended
