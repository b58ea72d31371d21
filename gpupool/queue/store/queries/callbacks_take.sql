-- The oldest, four of each host at most: one that does not answer keeps few of those that call.
WITH due AS (
    SELECT job, due_at, lower(substring(url FROM '//([^/?#]*)')) AS host
    FROM gpu_callbacks WHERE due_at <= %(now)s
), wanted AS (
    SELECT job, host FROM (
        SELECT *, row_number() OVER (PARTITION BY host ORDER BY due_at, job) AS number
        FROM due WHERE host <> ALL(%(busy)s::text[])) d
    WHERE number <= 4 ORDER BY due_at, job LIMIT %(limit)s
)
UPDATE gpu_callbacks c SET due_at = %(until)s
FROM wanted w WHERE c.job = w.job AND c.due_at <= %(now)s
RETURNING c.job::text AS job, c.url, c.tries, w.host
