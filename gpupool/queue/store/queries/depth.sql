SELECT tenant, level, count(*) AS jobs FROM gpu_jobs WHERE state = 'queued' GROUP BY tenant, level
