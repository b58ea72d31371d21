UPDATE gpu_jobs j SET
    lease_until = coalesce(%(now)s::timestamptz, now()) + make_interval(secs => %(lease_s)s),
    ran = make_interval(secs => g.ran_s)
FROM unnest(%(ids)s::uuid[], %(attempts)s::int[], %(ran_s)s::float8[]) AS g (job, attempt, ran_s)
WHERE j.id = g.job AND j.attempt = g.attempt AND j.executor = %(executor)s
    AND j.state IN ('scheduled', 'running')
RETURNING j.id AS job, j.attempt, j.cancel_requested AS cancelled, j.preempt_reason ->> 'reason' AS preempted
