-- Which jobs hold slots; what they hold changes with their version.
SELECT id, version FROM gpu_jobs WHERE state IN ('dispatching', 'running') ORDER BY decided_at, id
