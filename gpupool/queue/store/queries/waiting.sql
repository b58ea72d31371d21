-- Queued jobs, counted by whose they are, the pool of their first offer and why they wait; a job that no round has looked
-- at yet has its turn still to come. `since`: since when the first of them has waited without a break. That is since it
-- was submitted, its last attempt ended, and what it comes after has ended; none where they still come after others.
-- Most jobs were submitted and are no more than that: they are read once, and the rest apart.
WITH queued AS NOT MATERIALIZED (
    SELECT id, tenant, level, coalesce(offers -> 0 ->> 'pool', '') AS pool, attempt, blocked, enqueued_at,
        CASE WHEN waiting IS NOT NULL THEN waiting ->> 'reason' WHEN blocked THEN 'dependency'
            WHEN not_before > %(now)s THEN 'backoff' ELSE 'queued' END AS reason,
        depends_on || depends_on_ended AS parents,
        attempt > 0 OR depends_on <> '{}' OR depends_on_ended <> '{}' AS later
    FROM gpu_jobs WHERE state = 'queued'
), again AS MATERIALIZED (
    SELECT * FROM queued WHERE later
), let_go AS MATERIALIZED (
    SELECT parents, (
        SELECT max(finished_at) FROM (
            SELECT finished_at FROM gpu_jobs WHERE id = ANY(parents)
            UNION ALL SELECT finished_at FROM gpu_jobs WHERE group_id = ANY(parents)
            UNION ALL SELECT finished_at FROM gpu_job_history WHERE id = ANY(parents)
            UNION ALL SELECT finished_at FROM gpu_job_history WHERE group_id = ANY(parents)) p) AS at
    FROM (SELECT DISTINCT parents FROM again WHERE NOT blocked AND parents <> '{}') s
)
SELECT tenant, level, pool, reason, count(*) AS jobs, min(enqueued_at) AS since
FROM queued WHERE NOT later
GROUP BY 1, 2, 3, 4
UNION ALL
SELECT tenant, level, pool, reason, count(*),
    min(greatest(coalesce(ended_at, enqueued_at), let_go.at)) FILTER (WHERE NOT blocked)
FROM again LEFT JOIN let_go USING (parents)
LEFT JOIN (
    SELECT job, max(finished_at) AS ended_at FROM gpu_attempts WHERE job IN (SELECT id FROM again WHERE attempt > 0)
    GROUP BY job) a ON a.job = again.id
GROUP BY 1, 2, 3, 4
