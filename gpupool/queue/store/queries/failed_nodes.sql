-- Nodes on which a job's earlier attempts failed, the latest first.
SELECT node FROM gpu_attempts
WHERE job = %(job)s::uuid AND node IS NOT NULL AND outcome = 'failed'
ORDER BY attempt DESC LIMIT 3
