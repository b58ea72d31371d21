SELECT count(*) AS ahead
FROM gpu_jobs me
JOIN gpu_jobs j ON j.tenant = me.tenant AND j.lane = me.lane AND (j.enqueued_at, j.id) < (me.enqueued_at, me.id)
WHERE me.id = %(id)s::uuid AND me.state = 'queued' AND j.state = 'queued' AND NOT j.blocked
