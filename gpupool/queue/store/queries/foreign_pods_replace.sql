-- What pods hold that are not the queue's, all of it.
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(pods)s::jsonb) AS g (
        pool text, resource text, node int, tenant text, capacity_type text, units int, gpu_micro bigint)
), gone AS (
    DELETE FROM gpu_foreign_pods f WHERE NOT EXISTS (
        SELECT FROM given g
        WHERE (g.pool, g.resource, g.node, g.tenant) = (f.pool, f.resource, f.node, f.tenant))
)
INSERT INTO gpu_foreign_pods (pool, resource, node, tenant, capacity_type, units, gpu_micro)
SELECT pool, resource, node, tenant, capacity_type, units, gpu_micro FROM given
ON CONFLICT (pool, resource, node, tenant) DO UPDATE SET
    capacity_type = excluded.capacity_type, units = excluded.units, gpu_micro = excluded.gpu_micro
