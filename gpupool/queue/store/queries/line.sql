-- The jobs of a lane before a place in it: how many; and how long the first `depth` of them run if each runs for as
-- long as it may, all of them and the `beside` longest. Those that may be passed (gpupool.queue.domain.lower_bound)
-- run for no time here.
WITH first AS MATERIALIZED (
    SELECT * FROM gpu_jobs
    WHERE tenant = %(tenant)s AND lane = %(lane)s AND state = 'queued' AND NOT blocked
        AND (not_before IS NULL OR not_before <= %(now)s)
        AND (enqueued_at, id) < (%(enqueued_at)s::timestamptz, %(id)s::uuid)
    ORDER BY enqueued_at, id LIMIT %(depth)s
), line AS (
    SELECT count(*) AS jobs, CASE
        WHEN spot_losses >= greatest(retries, 3) OR timeout_s > coalesce(%(patient_s)s::bigint, timeout_s) THEN 0
        WHEN budget_limit_micro IS NULL OR %(rate)s::bigint = 0 THEN timeout_s
        ELSE greatest(0, least(timeout_s, (budget_limit_micro - cost_micro) * 3600 / nullif(%(rate)s::bigint, 0)))
    END AS seconds
    FROM first GROUP BY seconds
), ranked AS (
    SELECT jobs, seconds, sum(jobs) OVER (ORDER BY seconds DESC) - jobs AS longer FROM line
), work AS (
    SELECT coalesce(sum(jobs * seconds), 0)::bigint AS seconds,
        coalesce(sum(seconds * greatest(0, least(jobs, %(beside)s::bigint - longer))), 0)::bigint AS longest
    FROM ranked
), whole AS (
    SELECT count(*) AS jobs FROM gpu_jobs -- in the index alone
    WHERE tenant = %(tenant)s AND lane = %(lane)s AND state = 'queued' AND NOT blocked
        AND (enqueued_at, id) < (%(enqueued_at)s::timestamptz, %(id)s::uuid)
), backing_off AS (
    SELECT count(*) AS jobs FROM gpu_jobs
    WHERE tenant = %(tenant)s AND lane = %(lane)s AND state = 'queued' AND NOT blocked AND not_before > %(now)s
        AND (enqueued_at, id) < (%(enqueued_at)s::timestamptz, %(id)s::uuid)
)
SELECT whole.jobs - backing_off.jobs AS jobs, seconds, longest FROM whole, backing_off, work
