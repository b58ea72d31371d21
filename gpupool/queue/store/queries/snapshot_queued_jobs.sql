SELECT id, version, attempt, tenant, project, lane, level, extract(epoch FROM enqueued_at)::float8 AS enqueued,
    timeout_s, budget_limit_micro, cost_micro, preemptible, preempts,
    spot_losses >= greatest(retries, 1) AS on_demand_only
FROM gpu_jobs WHERE id = ANY(%(ids)s::uuid[])
