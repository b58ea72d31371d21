-- What kept a job from starting that came after another: the job at the root, how it ended, and why.
ALTER TABLE gpu_jobs ADD COLUMN cause jsonb;
ALTER TABLE gpu_job_history ADD COLUMN cause jsonb;
COMMENT ON COLUMN gpu_jobs.cause IS
    '{"parent": the job that it depends on, "job": that at the root, "state": how it ended, "reason": why or null}: what a job was cancelled for.';
COMMENT ON COLUMN gpu_reservations.pool IS
    'What is reserved: `pool` for its nodes, `pool/tenant` for a grant, `/tenant` for jobs that may run.';
