-- Count new queued jobs of a tenant; no row where the limit does not allow them.
INSERT INTO tenant_gpu_policies AS p (tenant, queued)
SELECT %(tenant)s, %(jobs)s::int WHERE %(limit)s::int IS NULL OR %(jobs)s::int <= %(limit)s::int
ON CONFLICT (tenant) DO UPDATE SET queued = p.queued + excluded.queued
    WHERE %(limit)s::int IS NULL OR p.queued + excluded.queued <= %(limit)s::int
RETURNING queued
