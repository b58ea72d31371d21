-- The attempt that ends, locked; no row where it is over already. Whether jobs come after it is looked up once
-- the lock is granted, and the statement after it sees everything that was committed before. `unstarted`:
-- failures of the platform.
SELECT locked.*, gpu_has_dependents(locked.id, locked.group_id) AS dependents, (
    SELECT count(*) FROM gpu_attempts a
    WHERE a.job = locked.id AND a.outcome = 'failed' AND a.started_at IS NULL) AS unstarted
FROM (
    SELECT j.*, l.period_tenant, l.period_project, coalesce(p.weight, 1) AS weight
    FROM gpu_jobs j
    JOIN gpu_ledger l ON l.job = j.id AND l.attempt = j.attempt AND l.kind = 'hold'
    LEFT JOIN tenant_gpu_policies p ON p.tenant = j.tenant
    WHERE j.id = %(job)s::uuid AND j.attempt = %(attempt)s AND j.state IN ('scheduled', 'running')
    FOR UPDATE OF j
) locked
