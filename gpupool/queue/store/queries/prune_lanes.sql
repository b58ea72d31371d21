DELETE FROM gpu_lanes l WHERE NOT EXISTS (
    SELECT FROM gpu_jobs j
    WHERE j.tenant = l.tenant AND j.lane = l.lane AND j.state = 'queued' AND NOT j.blocked)
