-- Accounts of the present periods, of these tenants or of all.
WITH wanted AS (
    SELECT * FROM tenant_gpu_policies WHERE %(tenants)s::text[] IS NULL OR tenant = ANY(%(tenants)s::text[])
), present AS (
    SELECT 'tenant' AS scope, tenant AS name, gpu_period(%(now)s, period) AS period FROM wanted
    UNION ALL
    SELECT 'project', tenant || '/' || p.key, gpu_period(%(now)s, p.value ->> 'period')
    FROM wanted, jsonb_each(projects) p
)
SELECT name, spent_micro, held_micro FROM gpu_accounts JOIN present USING (scope, name, period)
