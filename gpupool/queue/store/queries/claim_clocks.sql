INSERT INTO gpu_clocks AS c (pool, tenant, clock)
SELECT g.pool, g.tenant, g.clock
FROM jsonb_to_recordset(%(clocks)s::jsonb) AS g (pool text, tenant text, clock numeric)
ORDER BY g.pool, g.tenant
ON CONFLICT (pool, tenant) DO UPDATE SET clock = greatest(c.clock, excluded.clock)
