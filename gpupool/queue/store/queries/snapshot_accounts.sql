-- Accounts of the present periods.
WITH present AS (
    SELECT 'tenant' AS scope, tenant AS name, gpu_period(%(now)s, period) AS period FROM tenant_gpu_policies
    UNION ALL
    SELECT 'project', tenant || '/' || p.key, gpu_period(%(now)s, p.value ->> 'period')
    FROM tenant_gpu_policies, jsonb_each(projects) p
)
SELECT name, spent_micro, held_micro FROM gpu_accounts JOIN present USING (scope, name, period)
