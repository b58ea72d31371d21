-- Output after a chunk, each with how many bytes of its attempt are left out between it and the one before. Where
-- the chunk that is read on from is gone, they count from the last one before it that is kept.
WITH page AS (
    SELECT number, attempt, at, text, start, start + octet_length(text) + 1 AS ends FROM gpu_logs
    WHERE job = %(job)s::uuid AND number > %(after)s
        AND (%(attempt)s::int IS NULL OR attempt = %(attempt)s::int)
    ORDER BY number LIMIT %(limit)s
), before AS (
    SELECT attempt, start + octet_length(text) + 1 AS ends FROM gpu_logs
    WHERE job = %(job)s::uuid AND number <= %(after)s
    ORDER BY number DESC LIMIT 1
)
SELECT p.number, p.attempt, p.at, p.text, coalesce(greatest(0, p.start - coalesce(
    lag(p.ends) OVER (PARTITION BY p.attempt ORDER BY p.number), b.ends, 0)), 0) AS left_out
FROM page p LEFT JOIN before b USING (attempt)
ORDER BY p.number
