-- Accounts of the present periods, and those of periods that are over on which something was settled since.
WITH present AS (
    SELECT 'tenant' AS scope, tenant AS name, gpu_period(%(now)s, period) AS period FROM tenant_gpu_policies
    UNION ALL
    SELECT 'project', tenant || '/' || p.key, gpu_period(%(now)s, p.value ->> 'period')
    FROM tenant_gpu_policies, jsonb_each(projects) p
)
SELECT name, a.period, spent_micro AS micro FROM gpu_accounts a JOIN present p USING (scope, name)
WHERE a.period = p.period OR (a.period < p.period AND a.settled_at >= %(settled_since)s)
ORDER BY name, a.period
