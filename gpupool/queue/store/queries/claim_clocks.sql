-- Moved, not set: jobs that ended since the snapshot have moved the clocks back meanwhile.
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(clocks)s::jsonb) AS g (pool text, tenant text, floor numeric, charge numeric)
)
INSERT INTO gpu_clocks AS c (pool, tenant, clock)
SELECT pool, tenant, floor + charge FROM given
ORDER BY pool, tenant
ON CONFLICT (pool, tenant) DO UPDATE SET clock = (
    SELECT greatest(c.clock, g.floor) + g.charge FROM given g WHERE g.pool = c.pool AND g.tenant = c.tenant)
