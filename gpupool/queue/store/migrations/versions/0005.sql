-- One end of a job has one reason, attempts say how long they ran by the clock that measured it, output keeps its
-- first and its last part, and callbacks that fail are events.

UPDATE gpu_jobs SET reason = NULL WHERE state = 'succeeded' AND reason IS NOT NULL;
UPDATE gpu_job_history SET reason = NULL WHERE state = 'succeeded' AND reason IS NOT NULL;
UPDATE gpu_attempts SET reason = NULL WHERE outcome = 'succeeded' AND reason IS NOT NULL;
ALTER TABLE gpu_jobs ADD CONSTRAINT success_has_no_reason CHECK (state <> 'succeeded' OR reason IS NULL);
ALTER TABLE gpu_job_history ADD CONSTRAINT success_has_no_reason CHECK (state <> 'succeeded' OR reason IS NULL);
ALTER TABLE gpu_attempts ADD CONSTRAINT success_has_no_reason CHECK (outcome <> 'succeeded' OR reason IS NULL);

ALTER TABLE gpu_jobs ADD COLUMN ran interval;
ALTER TABLE gpu_job_history ADD COLUMN ran interval;
COMMENT ON COLUMN gpu_jobs.ran IS 'How long its attempt has run, as its executor said with the last renewal.';

-- A former release's chunks have no start: between them nothing is left out.
ALTER TABLE gpu_logs ADD COLUMN start bigint CHECK (start >= 0);
ALTER TABLE gpu_attempts
    ADD COLUMN log_bytes bigint NOT NULL DEFAULT 0 CHECK (log_bytes >= 0),
    ADD COLUMN log_head bigint;
COMMENT ON COLUMN gpu_logs.start IS 'Where it begins in the output of its attempt, in bytes.';
COMMENT ON COLUMN gpu_attempts.log_bytes IS 'How long the output is so far, with what is not kept.';
COMMENT ON COLUMN gpu_attempts.log_head IS 'The last chunk of its first part, once that is complete.';

-- Who writes output may delete of it what the last part of an attempt that runs no longer needs.
DO $$
BEGIN
    EXECUTE format($function$
        CREATE FUNCTION gpu_log_runs() RETURNS trigger LANGUAGE plpgsql AS $body$
        BEGIN
            IF NOT EXISTS (
                SELECT FROM %1$I.gpu_attempts WHERE job = OLD.job AND attempt = OLD.attempt
                    AND finished_at IS NULL AND log_head < OLD.number)
            THEN
                RAISE insufficient_privilege
                    USING MESSAGE = format('%%s may not delete this output', current_user);
            END IF;
            RETURN OLD;
        END $body$
    $function$, current_schema());
END $$;
CREATE TRIGGER kept_output_stays BEFORE DELETE ON gpu_logs FOR EACH ROW
    WHEN (NOT has_column_privilege('gpu_attempts'::regclass, 'placement', 'INSERT'))
    EXECUTE FUNCTION gpu_log_runs();

ALTER TABLE gpu_events DROP CONSTRAINT gpu_events_type_check;
ALTER TABLE gpu_events ADD CONSTRAINT gpu_events_type_check CHECK (type IN (
    'enqueued', 'dispatched', 'launched', 'started', 'requeued', 'preempted', 'idle', 'priority_changed',
    'succeeded', 'failed', 'cancelled', 'expired', 'callback_failed'));
ALTER TABLE gpu_callbacks ADD COLUMN error text;
-- Runs as its owner: who makes callbacks may change nothing of a job that has ended.
DO $$
BEGIN
    EXECUTE format($function$
        CREATE FUNCTION gpu_callback_failed() RETURNS trigger LANGUAGE plpgsql
        SECURITY DEFINER SET search_path = %1$I, pg_temp AS $body$
        BEGIN
            WITH job AS (
                UPDATE gpu_jobs SET version = version + 1, seq = seq + 1 WHERE id = NEW.job RETURNING *
            )
            INSERT INTO gpu_events (job, seq, type, tenant, project, at, data)
            SELECT id, seq, 'callback_failed', tenant, project, now(), jsonb_strip_nulls(jsonb_build_object(
                'state', state, 'attempt', attempt, 'reason', NEW.error, 'tries', NEW.tries,
                'again_at', nullif(NEW.due_at, 'infinity')))
            FROM job;
            RETURN NULL;
        END $body$
    $function$, current_schema());
END $$;
REVOKE EXECUTE ON FUNCTION gpu_callback_failed() FROM PUBLIC;
CREATE TRIGGER callback_failed AFTER UPDATE OF error ON gpu_callbacks FOR EACH ROW
    WHEN (NEW.tries > OLD.tries) EXECUTE FUNCTION gpu_callback_failed();
