-- Why heads wait, where that has changed. The version stays: this is no change of what the user asked for.
UPDATE gpu_jobs j SET waiting = g.waiting
FROM jsonb_to_recordset(%(waits)s::jsonb) AS g (job uuid, waiting jsonb)
WHERE j.id = g.job AND j.state = 'queued' AND NOT j.blocked AND j.waiting IS DISTINCT FROM g.waiting
