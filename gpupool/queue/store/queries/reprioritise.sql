WITH changed AS (
    UPDATE gpu_jobs SET
        priority = %(priority)s, level = %(level)s, lane = %(lane)s, preemptible = %(preemptible)s,
        preempts = %(preempts)s, waiting = CASE WHEN offers = '[]' THEN waiting END, version = version + 1,
        seq = seq + 1
    WHERE id = %(id)s::uuid AND state = 'queued' AND version = %(version)s
    RETURNING *
), event AS (
    INSERT INTO gpu_events (job, seq, type, tenant, project, at, data)
    SELECT id, seq, 'priority_changed', tenant, project, now(),
        jsonb_build_object('state', state, 'attempt', attempt, 'priority', priority, 'level', level)
    FROM changed
)
SELECT * FROM changed
