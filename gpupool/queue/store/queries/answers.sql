-- The columns that `depth` counts by, without reading a row.
SELECT tenant, level FROM gpu_jobs WHERE state = 'queued' LIMIT 0
