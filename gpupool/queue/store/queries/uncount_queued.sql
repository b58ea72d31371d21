-- Jobs that are queued no longer; in order of the name, so that no two transactions wait for each other.
UPDATE tenant_gpu_policies p SET queued = p.queued - g.jobs
FROM (
    SELECT q.tenant, g.jobs
    FROM tenant_gpu_policies q
    JOIN unnest(%(tenants)s::text[], %(jobs)s::int[]) AS g (tenant, jobs) USING (tenant)
    ORDER BY q.tenant FOR UPDATE OF q
) g
WHERE p.tenant = g.tenant
