-- Attempts of an executor that are to stop.
SELECT id, attempt, cancel_requested, preempt_reason FROM gpu_jobs
WHERE state IN ('dispatching', 'running') AND executor = %(executor)s
    AND (cancel_requested OR preempt_reason IS NOT NULL)
