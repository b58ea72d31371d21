-- Jobs that hold slots: these ones, or all.
SELECT id AS job, attempt, tenant, project, level, pool, resource, capacity_type, placement, gpu_micro, rate_micro, hold_micro,
    extract(epoch FROM coalesce(started_at, decided_at))::float8 AS since, started_at IS NOT NULL AS started, run_limit_s, preemptible,
    borrowed,
    CASE WHEN preempt_reason IS NOT NULL THEN coalesce(preempt_reason ->> 'for', 'stopped') END AS preempting_for
FROM gpu_jobs
WHERE %(ids)s::uuid[] IS NULL AND state IN ('scheduled', 'running')
    -- By their ids, and not through all that hold slots: the index of those can't be used for an expression.
    OR id = ANY(%(ids)s::uuid[]) AND state || '' IN ('scheduled', 'running')
ORDER BY decided_at, id
