-- Everything that the queue stores. Money in micro-USD, GPUs in millionths of one, durations in seconds.
-- Rules of state are CHECK constraints: a statement that breaks one fails, whichever program sends it.

CREATE FUNCTION gpu_period(at timestamptz, period text) RETURNS date
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT date_trunc(coalesce(period, 'month'), at AT TIME ZONE 'UTC')::date $$;
COMMENT ON FUNCTION gpu_period IS 'First day (UTC) of the day, week or month that a time lies in.';

CREATE TABLE gpu_jobs (
    id uuid PRIMARY KEY,
    tenant text NOT NULL,
    project text,
    user_name text NOT NULL,
    name text NOT NULL,
    group_id uuid,
    group_index int,
    state text NOT NULL CONSTRAINT known_state CHECK (
        state IN ('queued', 'dispatching', 'running', 'succeeded', 'failed', 'cancelled', 'expired')),
    version int NOT NULL DEFAULT 1 CHECK (version >= 1),
    seq int NOT NULL DEFAULT 0 CHECK (seq >= 0),
    attempt int NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    failures int NOT NULL DEFAULT 0 CHECK (failures >= 0),
    disruptions int NOT NULL DEFAULT 0 CHECK (disruptions >= 0),
    spot_losses int NOT NULL DEFAULT 0 CHECK (spot_losses BETWEEN 0 AND disruptions),
    retries int NOT NULL CHECK (retries >= 0),
    priority text NOT NULL,
    level smallint NOT NULL CHECK (level BETWEEN 0 AND 3),
    isolation text NOT NULL CHECK (isolation IN ('shared', 'exclusive')),
    gpu_count int NOT NULL CHECK (gpu_count >= 1),
    preemptible boolean NOT NULL,
    preempts boolean NOT NULL,
    request jsonb NOT NULL,
    offers jsonb NOT NULL CONSTRAINT at_least_one_offer CHECK (
        jsonb_typeof(offers) = 'array' AND jsonb_array_length(offers) >= 1),
    lane text NOT NULL,
    timeout_s int NOT NULL CHECK (timeout_s >= 1),
    budget_limit_micro bigint CHECK (budget_limit_micro >= 0),
    depends_on uuid,
    blocked boolean NOT NULL DEFAULT false,
    enqueued_at timestamptz NOT NULL,
    not_before timestamptz,
    deadline_at timestamptz,
    decided_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    pool text,
    resource text,
    capacity_type text CHECK (capacity_type IN ('spot', 'on-demand')),
    placement jsonb,
    gpu_key text,
    gpu_micro bigint CHECK (gpu_micro > 0),
    rate_micro bigint CHECK (rate_micro >= 0),
    hold_micro bigint CHECK (hold_micro >= 0),
    run_limit_s int CHECK (run_limit_s >= 1),
    plan_hash text NOT NULL,
    executor text,
    lease_until timestamptz,
    preempt_reason jsonb,
    cancel_requested boolean NOT NULL DEFAULT false,
    waiting jsonb,
    reason text,
    exit_code int,
    cost_micro bigint NOT NULL DEFAULT 0 CHECK (cost_micro >= 0),
    changed xid8 NOT NULL DEFAULT pg_current_xact_id(),
    CONSTRAINT attempts_are_counted_once CHECK (failures + disruptions <= attempt),
    CONSTRAINT final_jobs_have_an_end CHECK (
        (state IN ('succeeded', 'failed', 'cancelled', 'expired')) = (finished_at IS NOT NULL)),
    CONSTRAINT held_jobs_have_a_hold CHECK (
        (state IN ('dispatching', 'running')) = (hold_micro IS NOT NULL)),
    CONSTRAINT held_jobs_have_a_lease CHECK (
        (state IN ('dispatching', 'running')) = (lease_until IS NOT NULL)),
    CONSTRAINT held_jobs_have_a_place CHECK (
        state NOT IN ('dispatching', 'running') OR (
            attempt > 0 AND decided_at IS NOT NULL AND num_nulls(
                pool, resource, capacity_type, placement, gpu_key, gpu_micro, rate_micro, run_limit_s) = 0)),
    CONSTRAINT queued_jobs_have_no_place CHECK (
        state <> 'queued' OR num_nonnulls(
            pool, resource, capacity_type, placement, gpu_key, gpu_micro, rate_micro, run_limit_s,
            decided_at, started_at) = 0),
    CONSTRAINT running_jobs_have_started CHECK (
        CASE state WHEN 'running' THEN started_at IS NOT NULL WHEN 'dispatching' THEN started_at IS NULL
        ELSE true END),
    CONSTRAINT only_held_jobs_are_asked_to_stop CHECK (
        state IN ('dispatching', 'running') OR (preempt_reason IS NULL AND NOT cancel_requested)),
    CONSTRAINT only_held_jobs_have_an_executor CHECK (
        state IN ('dispatching', 'running') OR executor IS NULL),
    CONSTRAINT only_queued_jobs_are_held_back CHECK (state = 'queued' OR (not_before IS NULL AND NOT blocked)),
    CONSTRAINT ended_jobs_wait_for_nothing CHECK (
        state IN ('queued', 'dispatching', 'running') OR waiting IS NULL),
    CONSTRAINT only_dependents_are_blocked CHECK (NOT blocked OR depends_on IS NOT NULL),
    CONSTRAINT members_of_a_group_have_an_index CHECK ((group_id IS NULL) = (group_index IS NULL))
) WITH (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 1
);
CREATE INDEX gpu_jobs_lane ON gpu_jobs (tenant, lane, enqueued_at, id) WHERE state = 'queued' AND NOT blocked;
CREATE INDEX gpu_jobs_held ON gpu_jobs (state, lease_until) WHERE state IN ('dispatching', 'running');
CREATE INDEX gpu_jobs_deadline ON gpu_jobs (deadline_at) WHERE state = 'queued' AND deadline_at IS NOT NULL;
CREATE INDEX gpu_jobs_ended ON gpu_jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX gpu_jobs_backoff ON gpu_jobs (not_before) WHERE not_before IS NOT NULL;
CREATE INDEX gpu_jobs_changed ON gpu_jobs (changed);
CREATE INDEX gpu_jobs_dependents ON gpu_jobs (depends_on) WHERE blocked;
CREATE INDEX gpu_jobs_group ON gpu_jobs (group_id) WHERE group_id IS NOT NULL;
CREATE INDEX gpu_jobs_list ON gpu_jobs (enqueued_at DESC, id DESC);
CREATE INDEX gpu_jobs_list_of_tenant ON gpu_jobs (tenant, enqueued_at DESC, id DESC);

CREATE FUNCTION gpu_job_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed := pg_current_xact_id();
    RETURN NEW;
END $$;
CREATE TRIGGER changed BEFORE UPDATE OF version ON gpu_jobs FOR EACH ROW EXECUTE FUNCTION gpu_job_changed();
COMMENT ON COLUMN gpu_jobs.changed IS 'The transaction that wrote this version: a round reads what has changed.';

CREATE TABLE gpu_job_history (
    LIKE gpu_jobs INCLUDING DEFAULTS INCLUDING CONSTRAINTS,
    PRIMARY KEY (id),
    CONSTRAINT history_is_final CHECK (finished_at IS NOT NULL)
);
CREATE INDEX gpu_job_history_group ON gpu_job_history (group_id) WHERE group_id IS NOT NULL;
CREATE INDEX gpu_job_history_list ON gpu_job_history (enqueued_at DESC, id DESC);
CREATE INDEX gpu_job_history_list_of_tenant ON gpu_job_history (tenant, enqueued_at DESC, id DESC);
-- Filters that may select few jobs of a long history. There are few present jobs, and an index slows their writes.
CREATE INDEX gpu_job_history_list_by_user ON gpu_job_history (user_name, enqueued_at DESC, id DESC);
CREATE INDEX gpu_job_history_list_of_tenant_by_user
    ON gpu_job_history (tenant, user_name, enqueued_at DESC, id DESC);
CREATE INDEX gpu_job_history_list_by_project ON gpu_job_history (project, enqueued_at DESC, id DESC)
    WHERE project IS NOT NULL;
CREATE INDEX gpu_job_history_list_of_tenant_by_project
    ON gpu_job_history (tenant, project, enqueued_at DESC, id DESC) WHERE project IS NOT NULL;

CREATE TABLE gpu_lanes (
    tenant text NOT NULL,
    lane text NOT NULL,
    offers jsonb NOT NULL,
    level smallint NOT NULL,
    PRIMARY KEY (tenant, lane)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

CREATE TABLE gpu_attempts (
    job uuid NOT NULL,
    attempt int NOT NULL CHECK (attempt >= 1),
    tenant text NOT NULL,
    project text,
    pool text NOT NULL,
    resource text NOT NULL,
    capacity_type text NOT NULL CHECK (capacity_type IN ('spot', 'on-demand')),
    placement jsonb NOT NULL,
    gpu_micro bigint NOT NULL CHECK (gpu_micro > 0),
    rate_micro bigint NOT NULL CHECK (rate_micro >= 0),
    plan_hash text NOT NULL,
    decided_at timestamptz NOT NULL,
    launched_at timestamptz,
    node text,
    started_at timestamptz,
    finished_at timestamptz,
    outcome text CHECK (
        outcome IN ('succeeded', 'failed', 'timeout', 'cancelled', 'disrupted', 'preempted')),
    reason text,
    exit_code int,
    cost_micro bigint NOT NULL DEFAULT 0 CHECK (cost_micro >= 0),
    logged_until text,
    PRIMARY KEY (job, attempt),
    CONSTRAINT an_end_has_an_outcome CHECK ((finished_at IS NULL) = (outcome IS NULL)),
    CONSTRAINT what_never_started_costs_nothing CHECK (started_at IS NOT NULL OR cost_micro = 0)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX gpu_attempts_usage ON gpu_attempts (tenant, finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE tenant_gpu_policies (
    tenant text PRIMARY KEY,
    tenant_id uuid,
    weight double precision NOT NULL DEFAULT 1 CHECK (weight > 0),
    running_limit int CHECK (running_limit >= 0),
    queued_limit int CHECK (queued_limit >= 0),
    gpus_per_job int CHECK (gpus_per_job >= 0),
    budget_micro bigint CHECK (budget_micro >= 0),
    period text NOT NULL DEFAULT 'month' CHECK (period IN ('day', 'week', 'month')),
    projects jsonb NOT NULL DEFAULT '{}',
    queued int NOT NULL DEFAULT 0 CONSTRAINT queued_is_counted CHECK (queued >= 0),
    plan_hash text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE tenant_gpu_policies IS 'What the Plan says of each tenant, copied; `queued` is counted here.';
COMMENT ON COLUMN tenant_gpu_policies.projects IS '{"<project>": {"budget_micro": n or null, "period": "..."}}';

CREATE TABLE gpu_foreign_pods (
    pool text NOT NULL,
    resource text NOT NULL,
    node int NOT NULL CHECK (node >= 0),
    tenant text NOT NULL,
    capacity_type text NOT NULL,
    units int NOT NULL CHECK (units > 0),
    gpu_micro bigint NOT NULL CHECK (gpu_micro > 0),
    PRIMARY KEY (pool, resource, node, tenant)
);
COMMENT ON TABLE gpu_foreign_pods IS 'Units that pods hold which are not the queue''s, as the launcher sees them.';

CREATE FUNCTION gpu_within_limit(queued int, most int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF queued > most THEN
        RAISE EXCEPTION '% queued jobs, and % are allowed', queued, most;
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION gpu_within_limit IS 'Ends the statement that counted more queued jobs than a tenant may have.';

CREATE TABLE gpu_ledger (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job uuid NOT NULL,
    attempt int NOT NULL,
    kind text NOT NULL CHECK (kind IN ('hold', 'settle', 'release')),
    micro bigint NOT NULL CHECK (micro >= 0),
    tenant text NOT NULL,
    project text,
    period_tenant date NOT NULL,
    period_project date,
    at timestamptz NOT NULL,
    CONSTRAINT one_entry_of_a_kind_per_attempt UNIQUE (job, attempt, kind),
    CONSTRAINT a_project_has_a_period CHECK ((project IS NULL) = (period_project IS NULL))
) WITH (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX gpu_ledger_spent ON gpu_ledger (tenant, at) WHERE kind = 'settle';

CREATE FUNCTION gpu_ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'gpu_ledger is append-only: add an entry instead of changing or deleting one';
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON gpu_ledger
    FOR EACH STATEMENT EXECUTE FUNCTION gpu_ledger_is_append_only();

CREATE TABLE gpu_accounts (
    scope text NOT NULL CHECK (scope IN ('tenant', 'project')),
    name text NOT NULL,
    period date NOT NULL,
    spent_micro bigint NOT NULL DEFAULT 0 CHECK (spent_micro >= 0),
    held_micro bigint NOT NULL DEFAULT 0 CONSTRAINT holds_are_not_released_twice CHECK (held_micro >= 0),
    settled_at timestamptz,
    PRIMARY KEY (scope, name, period)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE gpu_clocks (
    pool text NOT NULL,
    tenant text NOT NULL,
    clock numeric(40, 0) NOT NULL CHECK (clock >= 0),
    PRIMARY KEY (pool, tenant)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE gpu_reservations (
    pool text PRIMARY KEY,
    job uuid NOT NULL,
    since timestamptz NOT NULL
);

CREATE TABLE gpu_events (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    job uuid NOT NULL,
    seq int NOT NULL CHECK (seq >= 1),
    type text NOT NULL CHECK (type IN (
        'enqueued', 'dispatched', 'launched', 'started', 'requeued', 'preempted', 'idle', 'priority_changed',
        'succeeded', 'failed', 'cancelled', 'expired')),
    tenant text NOT NULL,
    project text,
    pool text,
    at timestamptz NOT NULL,
    data jsonb NOT NULL,
    position bigint,
    CONSTRAINT events_of_a_job_are_numbered UNIQUE (job, seq)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);
CREATE INDEX gpu_events_to_place ON gpu_events (number) WHERE position IS NULL;
CREATE UNIQUE INDEX gpu_events_position ON gpu_events (position) WHERE position IS NOT NULL;
CREATE INDEX gpu_events_at ON gpu_events USING brin (at);

CREATE TABLE gpu_event_stream (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    position bigint NOT NULL CHECK (position >= 0),
    published bigint NOT NULL CHECK (published >= 0),
    CONSTRAINT only_placed_events_are_published CHECK (published <= position)
);
COMMENT ON TABLE gpu_event_stream IS
    'The last position given to an event, and up to which events are published; pruning does not set them back.';
INSERT INTO gpu_event_stream (position, published) VALUES (0, 0);

CREATE TABLE gpu_leader (
    role text PRIMARY KEY,
    holder text NOT NULL,
    epoch bigint NOT NULL CHECK (epoch >= 1),
    expires_at timestamptz NOT NULL
);

CREATE TABLE gpu_keys (
    id text PRIMARY KEY,
    hash bytea NOT NULL CONSTRAINT sha256 CHECK (octet_length(hash) = 32),
    name text NOT NULL,
    tenants text[] NOT NULL CHECK (cardinality(tenants) >= 1),
    scopes text[] NOT NULL CHECK (cardinality(scopes) >= 1),
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz
);

CREATE TABLE gpu_idempotency (
    tenant text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    job_ids uuid[] NOT NULL CHECK (cardinality(job_ids) >= 1),
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX gpu_idempotency_at ON gpu_idempotency USING brin (created_at);

CREATE TABLE gpu_logs (
    job uuid NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    attempt int NOT NULL,
    at timestamptz NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (job, number)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);
CREATE INDEX gpu_logs_at ON gpu_logs USING brin (at);

CREATE TABLE gpu_results (
    job uuid PRIMARY KEY,
    status int NOT NULL,
    headers jsonb NOT NULL,
    body bytea NOT NULL CONSTRAINT first_mebibyte CHECK (octet_length(body) <= 1048576),
    truncated boolean NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX gpu_results_at ON gpu_results USING brin (at);

CREATE TABLE gpu_alerts (
    scope text NOT NULL CHECK (scope IN ('tenant', 'project', 'job')),
    name text NOT NULL,
    period date NOT NULL,
    threshold int NOT NULL CHECK (threshold > 0),
    spent_micro bigint NOT NULL,
    limit_micro bigint NOT NULL,
    due_at timestamptz NOT NULL,
    sent_at timestamptz,
    tries int NOT NULL DEFAULT 0 CHECK (tries >= 0),
    taken text[] NOT NULL DEFAULT '{}',
    text text CONSTRAINT budgets_speak_for_themselves CHECK ((text IS NULL) = (scope <> 'job')),
    PRIMARY KEY (scope, name, period, threshold)
);
CREATE INDEX gpu_alerts_due ON gpu_alerts (due_at) WHERE sent_at IS NULL;

-- Jobs that have ended and whose callback_url is to be called.
CREATE TABLE gpu_callbacks (
    job uuid PRIMARY KEY,
    url text NOT NULL,
    due_at timestamptz NOT NULL,
    tries int NOT NULL DEFAULT 0 CHECK (tries >= 0)
);
CREATE INDEX gpu_callbacks_due ON gpu_callbacks (due_at);
CREATE FUNCTION gpu_jobs_call_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO gpu_callbacks (job, url, due_at)
    VALUES (NEW.id, NEW.request->>'callback_url', NEW.finished_at) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER call_back AFTER UPDATE OF finished_at ON gpu_jobs FOR EACH ROW
    WHEN (OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL AND NEW.request->>'callback_url' IS NOT NULL)
    EXECUTE FUNCTION gpu_jobs_call_back();
-- A job that is cancelled as it is submitted, because what it depends on did not succeed.
CREATE TRIGGER call_back_at_once AFTER INSERT ON gpu_jobs FOR EACH ROW
    WHEN (NEW.finished_at IS NOT NULL AND NEW.request->>'callback_url' IS NOT NULL)
    EXECUTE FUNCTION gpu_jobs_call_back();
