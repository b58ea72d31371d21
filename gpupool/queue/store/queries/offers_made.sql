-- Jobs that this Plan takes in another way, or not at all: `waiting` says why not. What changed since they were
-- read stays as it is, and is looked at again.
WITH groups AS (
    SELECT * FROM jsonb_to_recordset(%(groups)s::jsonb) AS g (
        number int, offers jsonb, lane text, level smallint, ranked boolean, isolation text, preemptible boolean,
        preempts boolean, waiting jsonb)
), changed AS (
    UPDATE gpu_jobs j SET
        offers = g.offers, lane = g.lane, level = g.level, isolation = g.isolation, preemptible = g.preemptible,
        preempts = g.preempts, waiting = g.waiting, plan_hash = %(plan_hash)s, version = j.version + 1,
        seq = j.seq + g.ranked::int
    FROM unnest(%(ids)s::uuid[], %(versions)s::int[], %(numbers)s::int[]) AS m (id, version, number)
    JOIN groups g USING (number)
    WHERE j.id = m.id AND j.version = m.version AND j.state = 'queued'
    RETURNING j.*, g.ranked
), events AS (
    INSERT INTO gpu_events (job, seq, type, tenant, project, at, data)
    SELECT id, seq, 'priority_changed', tenant, project, %(now)s,
        jsonb_build_object('state', state, 'attempt', attempt, 'level', level, 'priority',
            (ARRAY['low', 'medium', 'high', 'critical'])[level + 1])
    FROM changed WHERE ranked
), lanes AS (
    INSERT INTO gpu_lanes (tenant, lane, offers, level)
    SELECT DISTINCT ON (tenant, lane) tenant, lane, offers, level FROM changed WHERE NOT blocked
    ON CONFLICT DO NOTHING
)
SELECT id FROM changed
