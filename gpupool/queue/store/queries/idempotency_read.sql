SELECT fingerprint, job_ids::text[] AS job_ids FROM gpu_idempotency WHERE tenant = %(tenant)s AND key = %(key)s
