SELECT attempt, pool, capacity_type, placement, decided_at AS dispatched_at, launched_at, node, started_at, finished_at, outcome, reason, exit_code,
    cost_micro, borrowed
FROM gpu_attempts WHERE job = %(job)s::uuid
ORDER BY attempt DESC LIMIT %(limit)s
