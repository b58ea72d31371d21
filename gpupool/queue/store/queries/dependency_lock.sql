-- The lock keeps a job of each target from ending until this submission is committed: who ends it then sees its
-- dependents. It waits for nobody, so that no two wait for each other: `locked` is less than `open` where all
-- of a target are being changed. Where another job of an array fails meanwhile, that counts from the next end on.
WITH target AS (
    SELECT t.id, (SELECT count(*) FROM gpu_jobs WHERE tenant = %(tenant)s AND finished_at IS NULL AND id = t.id)
        + (SELECT count(*) FROM gpu_jobs WHERE tenant = %(tenant)s AND finished_at IS NULL AND group_id = t.id) > 0
        AS open
    FROM unnest(%(targets)s::uuid[]) AS t (id)
)
SELECT t.id, t.open, l.id IS NOT NULL AS locked
FROM target t LEFT JOIN LATERAL (
    SELECT id FROM gpu_jobs j
    WHERE j.tenant = %(tenant)s AND j.finished_at IS NULL AND (j.id = t.id OR j.group_id = t.id)
    LIMIT 1 FOR SHARE SKIP LOCKED
) l ON true
