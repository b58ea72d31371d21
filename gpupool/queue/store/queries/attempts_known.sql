SELECT a.job, a.attempt FROM gpu_attempts a
JOIN unnest(%(ids)s::uuid[], %(attempts)s::int[]) AS k (job, attempt) ON (a.job, a.attempt) = (k.job, k.attempt)
