SELECT id FROM gpu_jobs WHERE state = 'queued' AND deadline_at <= %(now)s
ORDER BY deadline_at LIMIT %(limit)s
