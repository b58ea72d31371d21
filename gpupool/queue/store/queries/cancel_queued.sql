-- A queued job ends at once; `state` and `reason` say how.
WITH ended AS (
    UPDATE gpu_jobs SET
        state = %(state)s, reason = %(reason)s, finished_at = %(now)s, waiting = NULL, not_before = NULL,
        blocked = false, version = version + 1, seq = seq + 1
    WHERE id = %(id)s::uuid AND state = 'queued'
    RETURNING *
), event AS (
    INSERT INTO gpu_events (job, seq, type, tenant, project, at, data)
    SELECT id, seq, state, tenant, project, finished_at,
        jsonb_build_object('state', state, 'attempt', attempt, 'reason', reason, 'by', %(by)s::text)
    FROM ended
)
SELECT * FROM ended
