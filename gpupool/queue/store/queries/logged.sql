-- Lines of an attempt's output, and how far it has been read.
WITH attempt AS (
    UPDATE gpu_attempts SET logged_until = %(until)s
    WHERE job = %(job)s::uuid AND attempt = %(attempt)s AND finished_at IS NULL
    RETURNING job, attempt
)
INSERT INTO gpu_logs (job, attempt, at, text)
SELECT job, attempt, now(), %(text)s FROM attempt
