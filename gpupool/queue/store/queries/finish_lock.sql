-- The attempt that ends, locked; no row where it is over already.
-- The statement after it sees everything that was committed before the lock was granted.
SELECT j.*, l.period_tenant, l.period_project, coalesce(p.weight, 1) AS weight, (
    SELECT count(*) FROM gpu_attempts a WHERE a.job = j.id AND a.outcome = 'failed' AND a.started_at IS NULL
) AS unstarted -- failures of the platform
FROM gpu_jobs j
JOIN gpu_ledger l ON l.job = j.id AND l.attempt = j.attempt AND l.kind = 'hold'
LEFT JOIN tenant_gpu_policies p ON p.tenant = j.tenant
WHERE j.id = %(job)s::uuid AND j.attempt = %(attempt)s AND j.state IN ('dispatching', 'running')
FOR UPDATE OF j
