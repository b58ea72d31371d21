-- What attempts used, by tenant and the day (UTC) on which they ended.
SELECT tenant, gpu_period(finished_at, 'day') AS day, sum(cost_micro)::bigint AS micro,
    coalesce(sum(gpu_micro * extract(epoch FROM finished_at - started_at)) / 1000000, 0)::float8 AS gpu_seconds
FROM gpu_attempts
WHERE tenant = ANY (%(tenants)s) AND finished_at >= %(since)s
GROUP BY 1, 2
ORDER BY 2, 1
