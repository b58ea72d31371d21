-- The end of an attempt, which finish_lock.sql has locked: the job is queued again or final, its ledger settled,
-- accounts and the tenant's clock corrected. What comes after it is settled before this.
WITH ended AS (
    UPDATE gpu_jobs SET
        state = %(state)s, version = version + 1, seq = seq + 1, failures = failures + %(failures)s,
        disruptions = disruptions + %(disruptions)s, spot_losses = spot_losses + %(spot_losses)s,
        cost_micro = cost_micro + %(cost)s, reason = %(reason)s, exit_code = %(exit_code)s,
        not_before = %(not_before)s, hold_micro = NULL, lease_until = NULL, executor = NULL,
        preempt_reason = NULL, cancel_requested = false, waiting = NULL, ran = NULL,
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
        run_limit_s = CASE WHEN NOT %(again)s THEN run_limit_s END,
        borrowed = borrowed AND NOT %(again)s
    WHERE id = %(job)s::uuid
    RETURNING *
), attempt AS (
    UPDATE gpu_attempts SET
        finished_at = %(now)s, outcome = %(outcome)s, reason = %(reason)s, exit_code = %(exit_code)s,
        cost_micro = %(cost)s, node = coalesce(%(node)s::text, node)
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
), lanes AS (
    INSERT INTO gpu_lanes (tenant, lane, offers, level)
    SELECT tenant, lane, offers, level FROM ended WHERE %(again)s
    ON CONFLICT DO NOTHING
    RETURNING 1
), accounts AS (
    -- In the order that a claim takes them in. The accounts are there since the claim.
    INSERT INTO gpu_accounts AS a (scope, name, period)
    SELECT g.scope, g.name, g.period
    FROM (VALUES
        ('project', %(tenant)s::text || '/' || %(project)s::text, %(period_project)s::date),
        ('tenant', %(tenant)s::text, %(period_tenant)s::date)) AS g (scope, name, period)
    WHERE g.period IS NOT NULL AND (SELECT count(*) FROM lanes) >= 0
    ORDER BY g.scope, g.name, g.period
    ON CONFLICT (scope, name, period) DO UPDATE SET
        spent_micro = a.spent_micro + %(cost)s, held_micro = a.held_micro - %(hold)s, settled_at = %(now)s
    RETURNING 1
), clock AS (
    UPDATE gpu_clocks SET clock = greatest(0, clock + %(clock)s::numeric)
    WHERE pool = %(pool)s AND tenant = %(tenant)s AND (SELECT count(*) FROM accounts) > 0
    RETURNING 1
), counted AS (
    UPDATE tenant_gpu_policies SET queued = queued + 1
    WHERE tenant = %(tenant)s AND %(again)s AND (SELECT count(*) FROM clock) >= 0
)
SELECT * FROM ended
