SELECT number, attempt, at, text FROM gpu_logs
WHERE job = %(job)s::uuid AND number > %(after)s AND (%(attempt)s::int IS NULL OR attempt = %(attempt)s::int)
ORDER BY number LIMIT %(limit)s
