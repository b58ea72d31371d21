-- The Plans by which leaders have decided; the latest is in force.
CREATE TABLE gpu_plans (
    hash text PRIMARY KEY,
    since timestamptz NOT NULL,
    holder text NOT NULL
);
COMMENT ON COLUMN gpu_plans.since IS 'When it came into force last.';

-- Offers of jobs that wait are made again for each Plan, and a job that it does not take has none.
ALTER TABLE gpu_jobs
    DROP CONSTRAINT at_least_one_offer,
    ADD CONSTRAINT offers_or_why_none CHECK (
        jsonb_typeof(offers) = 'array' AND (
            jsonb_array_length(offers) >= 1 OR finished_at IS NOT NULL
            OR state = 'queued' AND coalesce(waiting ->> 'reason' = 'not_possible', false)));
ALTER TABLE gpu_job_history DROP CONSTRAINT at_least_one_offer;
CREATE INDEX gpu_jobs_planned ON gpu_jobs (plan_hash) WHERE state = 'queued';
