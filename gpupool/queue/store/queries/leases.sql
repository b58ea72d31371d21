-- Attempts whose lease is to be renewed. That of attempts of the cluster never ends.
SELECT id AS job, attempt, lease_until AS until, executor IS NOT NULL AS taken FROM gpu_jobs
WHERE state IN ('scheduled', 'running') AND lease_until < '9999-01-01'
