-- Jobs of one kind, or both, that are dispatched and that no executor has.
UPDATE gpu_jobs SET
    executor = %(executor)s,
    lease_until = coalesce(%(now)s::timestamptz, now()) + make_interval(secs => %(lease_s)s)
WHERE id IN (
    SELECT id FROM gpu_jobs WHERE state = 'scheduled' AND executor IS NULL
        AND (request ->> 'target_url' IS NOT NULL) = ANY(%(http)s)
    ORDER BY decided_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
    AND state = 'scheduled' AND executor IS NULL
RETURNING *
