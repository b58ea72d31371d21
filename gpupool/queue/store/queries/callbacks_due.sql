SELECT job::text AS job, url, tries FROM gpu_callbacks
WHERE due_at <= %(now)s ORDER BY due_at, job LIMIT %(limit)s
