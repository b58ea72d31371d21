SELECT * FROM gpu_jobs WHERE id = %(id)s::uuid
UNION ALL
SELECT * FROM gpu_job_history WHERE id = %(id)s::uuid
LIMIT 1
