WITH asked AS (
    UPDATE gpu_jobs j SET
        preempt_reason = jsonb_build_object('for', g.beneficiary, 'reason', g.reason),
        version = j.version + 1, seq = j.seq + 1
    FROM jsonb_to_recordset(%(preempts)s::jsonb) AS g (job uuid, attempt int, beneficiary text, reason text)
    WHERE j.id = g.job AND j.attempt = g.attempt AND j.state IN ('scheduled', 'running')
        AND j.preempt_reason IS NULL
    RETURNING j.*
)
INSERT INTO gpu_events (job, seq, type, tenant, project, pool, at, data)
SELECT id, seq, 'preempted', tenant, project, pool, %(now)s,
    jsonb_build_object('state', state, 'attempt', attempt) || (preempt_reason - 'for')
FROM asked
