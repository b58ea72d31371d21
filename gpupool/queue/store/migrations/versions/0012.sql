-- States and reasons get the names that Kubernetes uses: dispatching -> scheduled, turn -> queued, not_possible ->
-- unschedulable, ending -> terminating. The constraints refuse the old state, so that a pod of the version before
-- starts nothing until it is replaced: it would take the slots of scheduled jobs for free ones.
DROP TRIGGER without_decisions ON gpu_jobs;
DROP INDEX gpu_jobs_held;
ALTER TABLE gpu_jobs DROP CONSTRAINT offers_or_why_none;
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['gpu_jobs', 'gpu_job_history'] LOOP
        EXECUTE format('ALTER TABLE %1$I
            DROP CONSTRAINT known_state, DROP CONSTRAINT held_jobs_have_a_hold, DROP CONSTRAINT held_jobs_have_a_lease,
            DROP CONSTRAINT held_jobs_have_a_place, DROP CONSTRAINT running_jobs_have_started,
            DROP CONSTRAINT only_held_jobs_are_asked_to_stop, DROP CONSTRAINT only_held_jobs_have_an_executor,
            DROP CONSTRAINT ended_jobs_wait_for_nothing', name);
        EXECUTE format('UPDATE %1$I SET reason = overlay(reason PLACING ''unschedulable'' FROM 1 FOR 12)
            WHERE reason LIKE ''not\_possible: %%''', name);
    END LOOP;
END $$;

UPDATE gpu_jobs SET
    state = CASE state WHEN 'dispatching' THEN 'scheduled' ELSE state END,
    waiting = CASE waiting ->> 'reason'
        WHEN 'turn' THEN waiting || '{"reason": "queued"}'
        WHEN 'not_possible' THEN waiting || '{"reason": "unschedulable"}'
        WHEN 'ending' THEN waiting || '{"reason": "terminating"}'
        ELSE waiting END
WHERE state = 'dispatching' OR waiting ->> 'reason' IN ('turn', 'not_possible', 'ending');
UPDATE gpu_events SET data = data || '{"state": "scheduled"}' WHERE data ->> 'state' = 'dispatching';

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['gpu_jobs', 'gpu_job_history'] LOOP
        EXECUTE format('ALTER TABLE %1$I
            ADD CONSTRAINT known_state CHECK (
                state IN (''queued'', ''scheduled'', ''running'', ''succeeded'', ''failed'', ''cancelled'', ''expired'')),
            ADD CONSTRAINT held_jobs_have_a_hold CHECK (
                (state IN (''scheduled'', ''running'')) = (hold_micro IS NOT NULL)),
            ADD CONSTRAINT held_jobs_have_a_lease CHECK (
                (state IN (''scheduled'', ''running'')) = (lease_until IS NOT NULL)),
            ADD CONSTRAINT held_jobs_have_a_place CHECK (
                state NOT IN (''scheduled'', ''running'') OR (
                    attempt > 0 AND decided_at IS NOT NULL AND num_nulls(
                        pool, resource, capacity_type, placement, gpu_key, gpu_micro, rate_micro, run_limit_s) = 0)),
            ADD CONSTRAINT running_jobs_have_started CHECK (
                CASE state WHEN ''running'' THEN started_at IS NOT NULL WHEN ''scheduled'' THEN started_at IS NULL
                ELSE true END),
            ADD CONSTRAINT only_held_jobs_are_asked_to_stop CHECK (
                state IN (''scheduled'', ''running'') OR (preempt_reason IS NULL AND NOT cancel_requested)),
            ADD CONSTRAINT only_held_jobs_have_an_executor CHECK (
                state IN (''scheduled'', ''running'') OR executor IS NULL),
            ADD CONSTRAINT ended_jobs_wait_for_nothing CHECK (
                state IN (''queued'', ''scheduled'', ''running'') OR waiting IS NULL)', name);
    END LOOP;
END $$;
ALTER TABLE gpu_jobs ADD CONSTRAINT offers_or_why_none CHECK (
    jsonb_typeof(offers) = 'array' AND (
        jsonb_array_length(offers) >= 1 OR finished_at IS NOT NULL
        OR state = 'queued' AND coalesce(waiting ->> 'reason' = 'unschedulable', false)));
CREATE INDEX gpu_jobs_held ON gpu_jobs (state, lease_until) WHERE state IN ('scheduled', 'running');

-- As in 0011.sql.
CREATE TRIGGER without_decisions BEFORE UPDATE ON gpu_jobs FOR EACH ROW
    WHEN (
        (OLD.finished_at IS NOT NULL
            OR NEW.version NOT BETWEEN OLD.version AND OLD.version + 1
            OR NEW.seq NOT BETWEEN OLD.seq AND OLD.seq + 1
            OR NEW.attempt <> OLD.attempt
            OR OLD.state <> 'scheduled' AND NEW.state = 'scheduled'
            OR OLD.state = 'queued' AND NEW.state NOT IN ('queued', 'cancelled', 'expired')
            OR OLD.preempt_reason IS NULL AND NEW.preempt_reason IS NOT NULL
            OR NEW.hold_micro <> OLD.hold_micro
            OR NEW.state <> 'queued' AND (
                NEW.pool, NEW.resource, NEW.placement, NEW.gpu_key, NEW.gpu_micro, NEW.run_limit_s,
                NEW.decided_at, NEW.borrowed) IS DISTINCT FROM (
                OLD.pool, OLD.resource, OLD.placement, OLD.gpu_key, OLD.gpu_micro, OLD.run_limit_s,
                OLD.decided_at, OLD.borrowed)
            OR NEW.state <> 'queued' AND (NEW.capacity_type, NEW.rate_micro)
                IS DISTINCT FROM (OLD.capacity_type, OLD.rate_micro)
                AND NOT (OLD.state = 'scheduled' AND NEW.state = 'running' AND OLD.capacity_type = 'spot-first'
                    AND NEW.capacity_type IN ('spot', 'on-demand') AND NEW.rate_micro BETWEEN 0 AND OLD.rate_micro))
        AND NOT has_column_privilege('gpu_attempts'::regclass, 'placement', 'INSERT'))
    EXECUTE FUNCTION gpu_refuse('decide, change what was decided, or change a job that has ended');
