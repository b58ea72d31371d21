-- The lock keeps the state until this submission is committed: who finishes the job then sees its dependents.
SELECT id::text, state, reason, cause FROM gpu_jobs WHERE id = %(id)s AND tenant = %(tenant)s FOR SHARE
