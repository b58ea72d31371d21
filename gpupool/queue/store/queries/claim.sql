-- Queued jobs that a round starts: whichever is still as the round saw it, and has offers of this Plan.
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(starts)s::jsonb) AS g (
        job uuid, attempt int, pool text, resource text, capacity_type text, placement jsonb, gpu_key text,
        gpu_micro bigint, rate_micro bigint, hold_micro bigint, run_limit_s int, borrowed boolean)
), claimed AS (
    UPDATE gpu_jobs j SET
        state = 'scheduled', attempt = j.attempt + 1, version = j.version + 1, seq = j.seq + 1,
        decided_at = %(now)s, waiting = NULL, not_before = NULL, reason = NULL, exit_code = NULL,
        pool = g.pool, resource = g.resource, capacity_type = g.capacity_type, placement = g.placement,
        gpu_key = g.gpu_key, gpu_micro = g.gpu_micro, rate_micro = g.rate_micro, hold_micro = g.hold_micro,
        run_limit_s = g.run_limit_s, borrowed = g.borrowed,
        lease_until = %(now)s::timestamptz + make_interval(secs => %(lease_s)s)
    FROM given g
    WHERE j.id = g.job AND j.attempt = g.attempt AND j.state = 'queued' AND NOT j.blocked
        AND j.plan_hash = %(plan_hash)s
    RETURNING j.*
), attempts AS (
    INSERT INTO gpu_attempts (
        job, attempt, tenant, project, pool, resource, capacity_type, placement, gpu_micro, rate_micro, plan_hash,
        decided_at, borrowed)
    SELECT id, attempt, tenant, project, pool, resource, capacity_type, placement, gpu_micro, rate_micro,
        plan_hash, decided_at, borrowed
    FROM claimed
), holds AS (
    INSERT INTO gpu_ledger (job, attempt, kind, micro, tenant, project, period_tenant, period_project, at)
    SELECT c.id, c.attempt, 'hold', c.hold_micro, c.tenant, c.project,
        gpu_period(c.decided_at, p.period),
        CASE WHEN c.project IS NOT NULL THEN
            gpu_period(c.decided_at, p.projects -> c.project ->> 'period') END,
        c.decided_at
    FROM claimed c LEFT JOIN tenant_gpu_policies p USING (tenant)
), events AS (
    INSERT INTO gpu_events (job, seq, type, tenant, project, pool, at, data)
    SELECT id, seq, 'dispatched', tenant, project, pool, decided_at,
        jsonb_build_object('state', state, 'attempt', attempt, 'key', gpu_key, 'isolation', isolation,
            'resource', resource, 'capacity_type', capacity_type, 'placement', placement,
            'gpu_micro', gpu_micro, 'rate_micro', rate_micro, 'hold_micro', hold_micro, 'plan_hash', plan_hash,
            'borrowed', borrowed)
    FROM claimed
)
SELECT id, attempt, tenant FROM claimed
