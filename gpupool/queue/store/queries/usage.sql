-- What attempts that ended in a span of time used, by project and pool.
SELECT project, pool, count(DISTINCT job) AS jobs, sum(cost_micro)::bigint AS micro,
    coalesce(sum(gpu_micro * extract(epoch FROM finished_at - started_at)) / 1000000, 0)::float8 AS gpu_seconds
FROM gpu_attempts
WHERE tenant = %(tenant)s AND finished_at >= %(since)s AND finished_at < %(until)s
GROUP BY project, pool
ORDER BY project NULLS FIRST, pool
