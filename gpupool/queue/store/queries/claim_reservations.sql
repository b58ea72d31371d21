-- All reservations after the round; one that stays keeps its time.
WITH given AS (
    SELECT * FROM unnest(%(pools)s::text[], %(ids)s::uuid[]) AS g (pool, job)
), gone AS (
    DELETE FROM gpu_reservations r WHERE NOT EXISTS (SELECT FROM given g WHERE g.pool = r.pool)
)
INSERT INTO gpu_reservations AS r (pool, job, since)
SELECT pool, job, %(now)s FROM given
ON CONFLICT (pool) DO UPDATE SET job = excluded.job, since = excluded.since WHERE r.job <> excluded.job
