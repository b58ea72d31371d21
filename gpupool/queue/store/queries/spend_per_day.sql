SELECT gpu_period(at, 'day') AS day, project, sum(micro)::bigint AS micro
FROM gpu_ledger
WHERE kind = 'settle' AND tenant = %(tenant)s AND at >= %(since)s AND at < %(until)s
GROUP BY 1, 2
ORDER BY 1, 2 NULLS FIRST
