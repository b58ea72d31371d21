-- Jobs that this Plan takes as the one before did. The version stays: nothing changes for their users.
UPDATE gpu_jobs j SET plan_hash = %(plan_hash)s
FROM unnest(%(ids)s::uuid[], %(versions)s::int[]) AS g (id, version)
WHERE j.id = g.id AND j.version = g.version AND j.state = 'queued'
