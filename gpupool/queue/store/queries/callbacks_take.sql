-- The oldest, four of each host at most: one that does not answer keeps few of those that call.
UPDATE gpu_callbacks SET due_at = %(until)s
WHERE due_at <= %(now)s AND job IN (
    SELECT job FROM (
        SELECT job, due_at, row_number() OVER (PARTITION BY split_part(url, '/', 3) ORDER BY due_at, job) AS number
        FROM gpu_callbacks WHERE due_at <= %(now)s AND split_part(url, '/', 3) <> ALL(%(busy)s::text[])) d
    WHERE number <= 4 ORDER BY due_at, job LIMIT %(limit)s)
RETURNING job::text AS job, url, tries, split_part(url, '/', 3) AS host
