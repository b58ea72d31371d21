-- Attempts of an executor that are to stop.
SELECT id AS job, attempt, cancel_requested AS cancelled, preempt_reason ->> 'reason' AS preempted FROM gpu_jobs
WHERE state IN ('scheduled', 'running') AND executor = %(executor)s
    AND (cancel_requested OR preempt_reason IS NOT NULL)
