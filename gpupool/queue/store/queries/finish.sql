-- The end of an attempt: the job is queued again or final, its ledger settled, its event written.
WITH ended AS (
    UPDATE gpu_jobs SET
        state = %(state)s, version = version + 1, seq = seq + 1, failures = failures + %(failures)s,
        disruptions = disruptions + %(disruptions)s, spot_losses = spot_losses + %(spot_losses)s,
        cost_micro = cost_micro + %(cost)s, reason = %(reason)s, exit_code = %(exit_code)s,
        not_before = %(not_before)s, hold_micro = NULL, lease_until = NULL, executor = NULL,
        preempt_reason = NULL, cancel_requested = false,
        finished_at = CASE WHEN %(again)s THEN NULL ELSE %(now)s::timestamptz END,
        decided_at = CASE WHEN NOT %(again)s THEN decided_at END,
        started_at = CASE WHEN NOT %(again)s THEN started_at END,
        pool = CASE WHEN NOT %(again)s THEN pool END,
        resource = CASE WHEN NOT %(again)s THEN resource END,
        capacity_type = CASE WHEN NOT %(again)s THEN capacity_type END,
        placement = CASE WHEN NOT %(again)s THEN placement END,
        gpu_key = CASE WHEN NOT %(again)s THEN gpu_key END,
        gpu_micro = CASE WHEN NOT %(again)s THEN gpu_micro END,
        rate_micro = CASE WHEN NOT %(again)s THEN rate_micro END,
        run_limit_s = CASE WHEN NOT %(again)s THEN run_limit_s END
    WHERE id = %(job)s::uuid
    RETURNING *
), attempt AS (
    UPDATE gpu_attempts SET
        finished_at = %(now)s, outcome = %(outcome)s, reason = %(reason)s, exit_code = %(exit_code)s,
        cost_micro = %(cost)s
    WHERE job = %(job)s::uuid AND attempt = %(attempt)s
), entries AS (
    INSERT INTO gpu_ledger (job, attempt, kind, micro, tenant, project, period_tenant, period_project, at)
    SELECT e.id, e.attempt, k.kind, k.micro, e.tenant, e.project, %(period_tenant)s, %(period_project)s, %(now)s
    FROM ended e, (VALUES ('settle', %(cost)s::bigint), ('release', %(rest)s::bigint)) AS k (kind, micro)
), event AS (
    INSERT INTO gpu_events (job, seq, type, tenant, project, pool, at, data)
    SELECT id, seq, CASE WHEN %(again)s THEN 'requeued' ELSE state END, tenant, project, %(pool)s, %(now)s,
        jsonb_strip_nulls(jsonb_build_object('state', state, 'attempt', attempt, 'outcome', %(outcome)s::text,
            'reason', reason, 'exit_code', exit_code, 'cost_micro', %(cost)s::bigint, 'failures', failures,
            'disruptions', disruptions, 'not_before', not_before))
    FROM ended
)
SELECT * FROM ended
