-- What a job comes after: ids of jobs and of arrays, all of whose jobs count. `depends_on` must have succeeded,
-- `depends_on_ended` must have ended, however they did. Columns are added at the end of both tables alike: the
-- archive copies whole rows.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['gpu_jobs', 'gpu_job_history'] LOOP
        EXECUTE format('ALTER TABLE %1$I RENAME COLUMN depends_on TO depended_on', name);
        EXECUTE format('ALTER TABLE %1$I ADD COLUMN depends_on uuid[] NOT NULL DEFAULT ''{}'',
            ADD COLUMN depends_on_ended uuid[] NOT NULL DEFAULT ''{}''', name);
        EXECUTE format('UPDATE %1$I SET depends_on = ARRAY[depended_on] WHERE depended_on IS NOT NULL', name);
        -- With it go its index, and the constraint on blocked jobs.
        EXECUTE format('ALTER TABLE %1$I DROP COLUMN depended_on', name);
        EXECUTE format('ALTER TABLE %1$I ADD CONSTRAINT only_dependents_are_blocked CHECK (
            NOT blocked OR cardinality(depends_on || depends_on_ended) > 0)', name);
    END LOOP;
END $$;
CREATE INDEX gpu_jobs_dependents ON gpu_jobs USING gin ((depends_on || depends_on_ended)) WITH (fastupdate = off)
    WHERE blocked;

-- The functions are run by any account, on the tables of this schema whatever temporary ones there are. The second
-- runs as its owner: who ends jobs need not read what the history has of them, and learns which have failed.
DO $$
BEGIN
    EXECUTE format($function$
        CREATE FUNCTION gpu_has_dependents(job uuid, array_id uuid) RETURNS boolean LANGUAGE plpgsql
            SET enable_seqscan = off SET search_path = %1$I, pg_temp AS $body$
        BEGIN
            RETURN EXISTS (SELECT FROM gpu_jobs j WHERE j.blocked
                AND (j.depends_on || j.depends_on_ended) && array_remove(ARRAY[job, array_id], NULL));
        END $body$
    $function$, current_schema());
    EXECUTE format($function$
        CREATE FUNCTION gpu_dependency(
            succeed uuid[], finish uuid[], ending jsonb, OUT waits boolean, OUT cause jsonb
        ) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = %1$I, pg_temp AS $body$
            WITH target AS (
                SELECT id, true AS must_succeed FROM unnest(succeed) AS t (id)
                UNION SELECT id, false FROM unnest(finish) AS t (id)
            ), job AS (
                SELECT t.must_succeed, j.id, j.finished_at IS NULL AND e.job IS NULL AS waits,
                    coalesce(e.state, j.state) AS state,
                    coalesce(j.cause, jsonb_build_object('job', j.id, 'state', coalesce(e.state, j.state),
                        'reason', CASE WHEN e.job IS NULL THEN j.reason ELSE e.reason END))
                        || jsonb_build_object('parent', j.id) AS cause
                FROM target t CROSS JOIN LATERAL (
                    SELECT id, state, finished_at, reason, cause FROM gpu_jobs WHERE id = t.id
                    UNION ALL SELECT id, state, finished_at, reason, cause FROM gpu_jobs WHERE group_id = t.id
                    UNION ALL SELECT id, state, finished_at, reason, cause FROM gpu_job_history WHERE id = t.id
                    UNION ALL SELECT id, state, finished_at, reason, cause FROM gpu_job_history WHERE group_id = t.id
                ) j LEFT JOIN jsonb_to_record(ending) AS e (job uuid, state text, reason text) ON e.job = j.id
            )
            SELECT coalesce(bool_or(job.waits), false), (array_agg(job.cause ORDER BY job.id) FILTER (
                WHERE must_succeed AND NOT job.waits AND job.state <> 'succeeded'))[1]
            FROM job
        $body$
    $function$, current_schema());
END $$;
COMMENT ON FUNCTION gpu_has_dependents IS
    'Whether blocked jobs come after a job or its array: as it is now, not as it was when the statement began.';
COMMENT ON FUNCTION gpu_dependency IS
    'Whether jobs and arrays are not over, and why the first did not succeed that must. `ending` is a job that ends now.';

-- As in 0003.sql, but that who may cancel jobs may let those go that only waited for an end.
DROP TRIGGER without_ends ON gpu_jobs;
CREATE TRIGGER without_ends BEFORE UPDATE ON gpu_jobs FOR EACH ROW
    WHEN (
        (NEW.state NOT IN (OLD.state, 'cancelled', 'expired')
            OR OLD.cancel_requested AND NOT NEW.cancel_requested
            OR NEW.waiting IS NOT NULL AND NEW.waiting IS DISTINCT FROM OLD.waiting
            OR NEW.state = 'queued' AND (NEW.not_before IS DISTINCT FROM OLD.not_before
                OR NEW.blocked AND NOT OLD.blocked
                OR OLD.blocked AND NOT NEW.blocked AND (
                    gpu_dependency(OLD.depends_on, OLD.depends_on_ended, NULL)
                    IS DISTINCT FROM ROW(false, NULL::jsonb)))
            OR NEW.state <> 'queued' AND (NEW.priority, NEW.level, NEW.lane, NEW.preemptible, NEW.preempts)
                IS DISTINCT FROM (OLD.priority, OLD.level, OLD.lane, OLD.preemptible, OLD.preempts))
        AND NOT has_column_privilege('gpu_jobs'::regclass, 'hold_micro', 'UPDATE'))
    EXECUTE FUNCTION gpu_refuse('change more of a job than its priority, or do more than cancel it');
