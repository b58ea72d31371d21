SELECT id::text, state, reason, cause FROM gpu_job_history WHERE id = %(id)s AND tenant = %(tenant)s
