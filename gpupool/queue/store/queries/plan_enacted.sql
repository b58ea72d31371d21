-- The leader decides by this Plan from now on. One that is in force already keeps its time.
INSERT INTO gpu_plans AS p (hash, since, holder) VALUES (%(plan_hash)s, %(now)s, %(holder)s)
ON CONFLICT (hash) DO UPDATE SET
    holder = excluded.holder,
    since = CASE WHEN EXISTS (SELECT FROM gpu_plans o WHERE o.since > p.since) THEN excluded.since ELSE p.since END
