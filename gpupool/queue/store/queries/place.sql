-- The next positions for events that have none, in order of their numbers.
WITH chosen AS (
    SELECT number, row_number() OVER (ORDER BY number) AS step
    FROM (SELECT number FROM gpu_events WHERE position IS NULL ORDER BY number LIMIT %(limit)s) n
), stream AS (
    UPDATE gpu_event_stream SET position = position + (SELECT count(*) FROM chosen)
    RETURNING position - (SELECT count(*) FROM chosen) AS last
), placed AS (
    UPDATE gpu_events e SET position = s.last + c.step
    FROM chosen c, stream s
    WHERE e.number = c.number
    RETURNING e.*
)
SELECT id, job, seq, type, tenant, project, pool, at, data, position FROM placed ORDER BY position
