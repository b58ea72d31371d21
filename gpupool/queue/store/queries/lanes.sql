-- The lanes of jobs that are queued again, or are blocked no longer.
INSERT INTO gpu_lanes (tenant, lane, offers, level)
SELECT DISTINCT ON (tenant, lane) tenant, lane, offers, level
FROM gpu_jobs WHERE id = ANY(%(ids)s::uuid[]) AND state = 'queued' AND NOT blocked
ON CONFLICT DO NOTHING
