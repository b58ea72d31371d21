-- Nodes on which a job's earlier attempts failed, or that took them away before they had started; the latest first.
SELECT node FROM gpu_attempts
WHERE job = %(job)s::uuid AND node IS NOT NULL
    AND (outcome = 'failed' OR outcome = 'preempted' AND started_at IS NULL)
ORDER BY attempt DESC LIMIT 3
