-- Container jobs that are dispatched and that no executor has. What they hold is the cluster's to say, so that
-- their lease never ends.
UPDATE gpu_jobs SET executor = %(executor)s, lease_until = '9999-01-01'
WHERE id IN (
    SELECT id FROM gpu_jobs WHERE state = 'scheduled' AND executor IS NULL
        AND request ->> 'target_url' IS NULL
    ORDER BY decided_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
    AND state = 'scheduled' AND executor IS NULL
RETURNING *
