-- Why attempts that are dispatched do not run yet, or why nothing is heard of those that run.
UPDATE gpu_jobs j SET waiting = g.waiting, version = version + 1
FROM unnest(%(ids)s::uuid[], %(attempts)s::int[], %(waits)s::jsonb[]) AS g (job, attempt, waiting)
WHERE j.id = g.job AND j.attempt = g.attempt AND j.state IN ('scheduled', 'running')
    AND j.waiting IS DISTINCT FROM g.waiting
