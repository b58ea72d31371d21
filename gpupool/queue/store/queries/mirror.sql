INSERT INTO tenant_gpu_policies AS p (
    tenant, tenant_id, weight, running_limit, queued_limit, gpus_per_job, budget_micro, period, projects, plan_hash)
SELECT tenant, tenant_id, weight, running_limit, queued_limit, gpus_per_job, budget_micro, period, projects,
    %(plan_hash)s
FROM jsonb_to_recordset(%(policies)s::jsonb) AS g (
    tenant text, tenant_id uuid, weight float8, running_limit int, queued_limit int, gpus_per_job int,
    budget_micro bigint, period text, projects jsonb)
ORDER BY tenant
ON CONFLICT (tenant) DO UPDATE SET
    tenant_id = excluded.tenant_id, weight = excluded.weight, running_limit = excluded.running_limit,
    queued_limit = excluded.queued_limit, gpus_per_job = excluded.gpus_per_job,
    budget_micro = excluded.budget_micro, period = excluded.period, projects = excluded.projects,
    plan_hash = excluded.plan_hash
WHERE (p.tenant_id, p.weight, p.running_limit, p.queued_limit, p.gpus_per_job, p.budget_micro, p.period,
        p.projects, p.plan_hash)
    IS DISTINCT FROM (excluded.tenant_id, excluded.weight, excluded.running_limit, excluded.queued_limit,
        excluded.gpus_per_job, excluded.budget_micro, excluded.period, excluded.projects, excluded.plan_hash)
