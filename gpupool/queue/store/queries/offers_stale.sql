-- Queued jobs whose offers are of another Plan: alike ones together, each group with one of its jobs. `enacted`: that
-- Plan was in force once. `fields`: what of a request matters; NULL for all of it. It ends early where requests come
-- to more than so many bytes. Two ranges of an index: as one condition, all of the table might be read.
WITH stale AS (
    SELECT * FROM (
        (SELECT * FROM gpu_jobs WHERE state = 'queued' AND plan_hash < %(plan_hash)s ORDER BY plan_hash LIMIT %(limit)s::int)
        UNION ALL
        (SELECT * FROM gpu_jobs WHERE state = 'queued' AND plan_hash > %(plan_hash)s ORDER BY plan_hash LIMIT %(limit)s::int)
    ) ranges LIMIT %(limit)s::int
), measured AS (
    SELECT *, sum(octet_length(request::text)) OVER (
        ORDER BY enqueued_at, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
    FROM stale
), groups AS (
    SELECT array_agg(id) AS ids, array_agg(version) AS versions,
        plan_hash IN (SELECT hash FROM gpu_plans) AS enacted
    FROM measured
    WHERE bytes IS NULL OR bytes < %(bytes)s
    GROUP BY tenant, project, priority, lane, isolation, gpu_count, timeout_s, budget_limit_micro, plan_hash,
        CASE WHEN offers = '[]' THEN waiting END,
        CASE WHEN %(fields)s::text[] IS NULL THEN ARRAY[request]
            ELSE ARRAY(SELECT request -> name FROM unnest(%(fields)s::text[]) AS name) END
)
SELECT g.ids, g.versions, g.enacted, j.* FROM groups g JOIN gpu_jobs j ON j.id = g.ids[1]
