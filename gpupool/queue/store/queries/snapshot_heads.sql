-- The first jobs of each lane that may start now, and why they wait as far as that is written.
SELECT h.id, h.version, h.waiting::text
FROM gpu_lanes l
CROSS JOIN LATERAL (
    SELECT * FROM gpu_jobs j
    WHERE j.tenant = l.tenant AND j.lane = l.lane AND j.state = 'queued' AND NOT j.blocked
        AND (j.not_before IS NULL OR j.not_before <= %(now)s)
    ORDER BY j.enqueued_at, j.id
    LIMIT %(per_lane)s
) h
