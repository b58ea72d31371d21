-- An attempt may start beyond its tenant's grant, on what others leave idle. That is a decision, like its place.
ALTER TABLE gpu_jobs ADD COLUMN borrowed boolean NOT NULL DEFAULT false;
ALTER TABLE gpu_job_history ADD COLUMN borrowed boolean NOT NULL DEFAULT false;
ALTER TABLE gpu_attempts ADD COLUMN borrowed boolean NOT NULL DEFAULT false;

-- Pools may take spot nodes first. An attempt is decided at the price of an on-demand node; what its node is shows
-- when it starts, and who starts it may say that then: once, and for no higher price.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['gpu_jobs', 'gpu_attempts'] LOOP
        EXECUTE format('ALTER TABLE %1$I DROP CONSTRAINT %1$s_capacity_type_check,
            ADD CONSTRAINT %1$s_capacity_type_check
            CHECK (capacity_type IN (''reserved'', ''spot'', ''on-demand'', ''spot-first''))', name);
    END LOOP;
END $$;

DROP TRIGGER without_decisions ON gpu_jobs;
CREATE TRIGGER without_decisions BEFORE UPDATE ON gpu_jobs FOR EACH ROW
    WHEN (
        (OLD.finished_at IS NOT NULL
            OR NEW.version NOT BETWEEN OLD.version AND OLD.version + 1
            OR NEW.seq NOT BETWEEN OLD.seq AND OLD.seq + 1
            OR NEW.attempt <> OLD.attempt
            OR OLD.state <> 'dispatching' AND NEW.state = 'dispatching'
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
                AND NOT (OLD.state = 'dispatching' AND NEW.state = 'running' AND OLD.capacity_type = 'spot-first'
                    AND NEW.capacity_type IN ('spot', 'on-demand') AND NEW.rate_micro BETWEEN 0 AND OLD.rate_micro))
        AND NOT has_column_privilege('gpu_attempts'::regclass, 'placement', 'INSERT'))
    EXECUTE FUNCTION gpu_refuse('decide, change what was decided, or change a job that has ended');

CREATE TRIGGER prices_are_decisions BEFORE UPDATE ON gpu_attempts FOR EACH ROW
    WHEN (
        (NEW.capacity_type, NEW.rate_micro) IS DISTINCT FROM (OLD.capacity_type, OLD.rate_micro)
        AND NOT (OLD.started_at IS NULL AND NEW.started_at IS NOT NULL AND OLD.capacity_type = 'spot-first'
            AND NEW.capacity_type IN ('spot', 'on-demand') AND NEW.rate_micro BETWEEN 0 AND OLD.rate_micro)
        AND NOT has_column_privilege('gpu_attempts'::regclass, 'placement', 'INSERT'))
    EXECUTE FUNCTION gpu_refuse('change what was decided');
