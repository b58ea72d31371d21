-- What an account with a part of the rights may write into rows that it shares with others: rights end at columns.
-- Who may insert an attempt's placement decides; who may write a job's hold ends attempts. Rights are named instead
-- of roles, so that the owner, and accounts that were granted rights by hand, go on as before. They are asked last.

CREATE FUNCTION gpu_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE insufficient_privilege USING MESSAGE = format('%s may not %s', current_user, TG_ARGV[0]);
END $$;
COMMENT ON FUNCTION gpu_refuse IS 'Ends a statement that a rule of a trigger does not allow to this account.';

CREATE TRIGGER new_jobs_are_queued BEFORE INSERT ON gpu_jobs FOR EACH ROW
    WHEN (
        NEW.state <> 'queued' AND (NEW.state, NEW.reason) IS DISTINCT FROM ('cancelled', 'dependency')
        AND NOT has_column_privilege('gpu_jobs'::regclass, 'hold_micro', 'UPDATE'))
    EXECUTE FUNCTION gpu_refuse('insert a job that is not queued');

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
                NEW.pool, NEW.resource, NEW.capacity_type, NEW.placement, NEW.gpu_key, NEW.gpu_micro,
                NEW.rate_micro, NEW.run_limit_s, NEW.decided_at) IS DISTINCT FROM (
                OLD.pool, OLD.resource, OLD.capacity_type, OLD.placement, OLD.gpu_key, OLD.gpu_micro,
                OLD.rate_micro, OLD.run_limit_s, OLD.decided_at))
        AND NOT has_column_privilege('gpu_attempts'::regclass, 'placement', 'INSERT'))
    EXECUTE FUNCTION gpu_refuse('decide, change what was decided, or change a job that has ended');

CREATE TRIGGER without_ends BEFORE UPDATE ON gpu_jobs FOR EACH ROW
    WHEN (
        (NEW.state NOT IN (OLD.state, 'cancelled', 'expired')
            OR OLD.cancel_requested AND NOT NEW.cancel_requested
            OR NEW.waiting IS NOT NULL AND NEW.waiting IS DISTINCT FROM OLD.waiting
            OR NEW.state = 'queued' AND (NEW.blocked, NEW.not_before) IS DISTINCT FROM (OLD.blocked, OLD.not_before)
            OR NEW.state <> 'queued' AND (NEW.priority, NEW.level, NEW.lane, NEW.preemptible, NEW.preempts)
                IS DISTINCT FROM (OLD.priority, OLD.level, OLD.lane, OLD.preemptible, OLD.preempts))
        AND NOT has_column_privilege('gpu_jobs'::regclass, 'hold_micro', 'UPDATE'))
    EXECUTE FUNCTION gpu_refuse('change more of a job than its priority, or do more than cancel it');

CREATE TRIGGER ended_attempts_stay BEFORE UPDATE ON gpu_attempts FOR EACH ROW
    WHEN (OLD.finished_at IS NOT NULL AND NOT has_column_privilege('gpu_attempts'::regclass, 'placement', 'INSERT'))
    EXECUTE FUNCTION gpu_refuse('change an attempt that has ended');

CREATE TRIGGER holds_are_decisions BEFORE INSERT ON gpu_ledger FOR EACH ROW
    WHEN (NEW.kind = 'hold' AND NOT has_column_privilege('gpu_attempts'::regclass, 'placement', 'INSERT'))
    EXECUTE FUNCTION gpu_refuse('hold money for an attempt');

-- Leases of the processes that write output, and of those that decide.
CREATE TRIGGER leads_its_own BEFORE INSERT OR UPDATE ON gpu_leader FOR EACH ROW
    WHEN (NOT CASE WHEN NEW.role IN ('launcher', 'callbacks')
        THEN has_column_privilege('gpu_logs'::regclass, 'text', 'INSERT')
        ELSE has_column_privilege('gpu_attempts'::regclass, 'placement', 'INSERT') END)
    EXECUTE FUNCTION gpu_refuse('lead this role');

-- An event that the API writes says what has become of the job in the same transaction. Without a schema's name
-- in front, the table could be a temporary one of the account's own. The plan is made once, most often while there
-- are few jobs: for many it would read all of them for each event.
DO $$
BEGIN
    EXECUTE format($function$
        CREATE FUNCTION gpu_event_is_true() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $body$
        BEGIN
            IF NEW.pool IS NOT NULL OR NOT EXISTS (
                SELECT FROM %1$I.gpu_jobs WHERE id = NEW.job AND seq >= NEW.seq AND CASE NEW.type
                    WHEN 'enqueued' THEN NEW.seq = 1
                    WHEN 'priority_changed' THEN seq = NEW.seq AND state = 'queued'
                    ELSE NEW.type IN ('cancelled', 'expired') AND seq = NEW.seq AND state = NEW.type END)
            THEN
                RAISE insufficient_privilege
                    USING MESSAGE = format('%%s may not write this event of the job', current_user);
            END IF;
            RETURN NEW;
        END $body$
    $function$, current_schema());
    -- Runs as its owner: nobody else writes callbacks but who makes them.
    EXECUTE format(
        'ALTER FUNCTION gpu_jobs_call_back() SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END $$;
REVOKE EXECUTE ON FUNCTION gpu_jobs_call_back() FROM PUBLIC;
CREATE TRIGGER events_are_true BEFORE INSERT ON gpu_events FOR EACH ROW
    WHEN (NOT has_column_privilege('gpu_jobs'::regclass, 'hold_micro', 'UPDATE'))
    EXECUTE FUNCTION gpu_event_is_true();
