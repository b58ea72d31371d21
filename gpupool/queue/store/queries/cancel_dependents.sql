-- What waits for jobs that did not succeed. The cause is that of the job before, or that job itself.
WITH ended AS (
    UPDATE gpu_jobs j SET
        state = 'cancelled', reason = 'dependency', finished_at = %(now)s, waiting = NULL, not_before = NULL,
        blocked = false, version = j.version + 1, seq = j.seq + 1, cause = coalesce(
            p.cause, jsonb_build_object('job', p.id, 'state', p.state, 'reason', p.reason))
    FROM gpu_jobs p
    WHERE p.id = ANY(%(ids)s::uuid[]) AND j.depends_on = p.id AND j.blocked AND j.state = 'queued'
    RETURNING j.*
), event AS (
    INSERT INTO gpu_events (job, seq, type, tenant, project, at, data)
    SELECT id, seq, 'cancelled', tenant, project, finished_at,
        jsonb_build_object('state', state, 'attempt', attempt, 'reason', reason, 'depends_on', depends_on,
            'cause', cause)
    FROM ended
)
SELECT id, tenant FROM ended
