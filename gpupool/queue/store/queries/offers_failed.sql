-- Jobs that this Plan does not take, where the file wants them to fail then.
WITH ended AS (
    UPDATE gpu_jobs j SET
        state = 'failed', reason = m.reason, finished_at = %(now)s, waiting = NULL, not_before = NULL,
        blocked = false, plan_hash = %(plan_hash)s, version = j.version + 1, seq = j.seq + 1
    FROM unnest(%(ids)s::uuid[], %(versions)s::int[], %(reasons)s::text[]) AS m (id, version, reason)
    WHERE j.id = m.id AND j.version = m.version AND j.state = 'queued'
    RETURNING j.*
), events AS (
    INSERT INTO gpu_events (job, seq, type, tenant, project, at, data)
    SELECT id, seq, 'failed', tenant, project, %(now)s,
        jsonb_build_object('state', state, 'attempt', attempt, 'reason', reason, 'failures', failures)
    FROM ended
)
SELECT id, tenant, group_id FROM ended
