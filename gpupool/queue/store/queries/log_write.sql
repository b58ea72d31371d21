-- Only the attempt that runs writes: what a fenced out executor still sends is not kept.
INSERT INTO gpu_logs (job, attempt, at, text)
SELECT job, attempt, coalesce(%(now)s::timestamptz, now()), %(text)s
FROM gpu_attempts WHERE job = %(job)s::uuid AND attempt = %(attempt)s AND finished_at IS NULL
RETURNING number
