-- In the order that a claim takes them in.
INSERT INTO gpu_accounts AS a (scope, name, period, spent_micro, held_micro)
SELECT g.scope, g.name, g.period, 0, 0
FROM (VALUES
    ('project', %(tenant)s::text || '/' || %(project)s::text, %(period_project)s::date),
    ('tenant', %(tenant)s::text, %(period_tenant)s::date)) AS g (scope, name, period)
WHERE g.period IS NOT NULL
ORDER BY g.scope, g.name, g.period
ON CONFLICT (scope, name, period) DO UPDATE SET
    spent_micro = a.spent_micro + %(cost)s, held_micro = a.held_micro - %(hold)s
