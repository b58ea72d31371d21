-- The queue's database as gpupool of 2026-11-24 (tables 0001) had it: pg_dump of what its own roles made of jobs that were
-- archived, succeeded, failed, running, queued, behind another, and of an array. Dead text: nothing writes it again.
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE FUNCTION public.gpu_job_changed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.changed := pg_current_xact_id();
    RETURN NEW;
END $$;
CREATE FUNCTION public.gpu_jobs_call_back() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO gpu_callbacks (job, url, due_at)
    VALUES (NEW.id, NEW.request->>'callback_url', NEW.finished_at) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE FUNCTION public.gpu_ledger_is_append_only() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'gpu_ledger is append-only: add an entry instead of changing or deleting one';
END $$;
CREATE FUNCTION public.gpu_period(at timestamp with time zone, period text) RETURNS date
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT date_trunc(coalesce(period, 'month'), at AT TIME ZONE 'UTC')::date $$;
CREATE FUNCTION public.gpu_within_limit(queued integer, most integer) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF queued > most THEN
        RAISE EXCEPTION '% queued jobs, and % are allowed', queued, most;
    END IF;
    RETURN true;
END $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.gpu_accounts (
    scope text NOT NULL,
    name text NOT NULL,
    period date NOT NULL,
    spent_micro bigint DEFAULT 0 NOT NULL,
    held_micro bigint DEFAULT 0 NOT NULL,
    settled_at timestamp with time zone,
    CONSTRAINT gpu_accounts_scope_check CHECK ((scope = ANY (ARRAY['tenant'::text, 'project'::text]))),
    CONSTRAINT gpu_accounts_spent_micro_check CHECK ((spent_micro >= 0)),
    CONSTRAINT holds_are_not_released_twice CHECK ((held_micro >= 0))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');
CREATE TABLE public.gpu_alerts (
    scope text NOT NULL,
    name text NOT NULL,
    period date NOT NULL,
    threshold integer NOT NULL,
    spent_micro bigint NOT NULL,
    limit_micro bigint NOT NULL,
    due_at timestamp with time zone NOT NULL,
    sent_at timestamp with time zone,
    tries integer DEFAULT 0 NOT NULL,
    taken text[] DEFAULT '{}'::text[] NOT NULL,
    text text,
    CONSTRAINT budgets_speak_for_themselves CHECK (((text IS NULL) = (scope <> 'job'::text))),
    CONSTRAINT gpu_alerts_scope_check CHECK ((scope = ANY (ARRAY['tenant'::text, 'project'::text, 'job'::text]))),
    CONSTRAINT gpu_alerts_threshold_check CHECK ((threshold > 0)),
    CONSTRAINT gpu_alerts_tries_check CHECK ((tries >= 0))
);
CREATE TABLE public.gpu_attempts (
    job uuid NOT NULL,
    attempt integer NOT NULL,
    tenant text NOT NULL,
    project text,
    pool text NOT NULL,
    resource text NOT NULL,
    capacity_type text NOT NULL,
    placement jsonb NOT NULL,
    gpu_micro bigint NOT NULL,
    rate_micro bigint NOT NULL,
    plan_hash text NOT NULL,
    decided_at timestamp with time zone NOT NULL,
    launched_at timestamp with time zone,
    node text,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    outcome text,
    reason text,
    exit_code integer,
    cost_micro bigint DEFAULT 0 NOT NULL,
    logged_until text,
    CONSTRAINT an_end_has_an_outcome CHECK (((finished_at IS NULL) = (outcome IS NULL))),
    CONSTRAINT gpu_attempts_attempt_check CHECK ((attempt >= 1)),
    CONSTRAINT gpu_attempts_capacity_type_check CHECK ((capacity_type = ANY (ARRAY['spot'::text, 'on-demand'::text]))),
    CONSTRAINT gpu_attempts_cost_micro_check CHECK ((cost_micro >= 0)),
    CONSTRAINT gpu_attempts_gpu_micro_check CHECK ((gpu_micro > 0)),
    CONSTRAINT gpu_attempts_outcome_check CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'failed'::text, 'timeout'::text, 'cancelled'::text, 'disrupted'::text, 'preempted'::text]))),
    CONSTRAINT gpu_attempts_rate_micro_check CHECK ((rate_micro >= 0)),
    CONSTRAINT what_never_started_costs_nothing CHECK (((started_at IS NOT NULL) OR (cost_micro = 0)))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02');
CREATE TABLE public.gpu_callbacks (
    job uuid NOT NULL,
    url text NOT NULL,
    due_at timestamp with time zone NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    CONSTRAINT gpu_callbacks_tries_check CHECK ((tries >= 0))
);
CREATE TABLE public.gpu_clocks (
    pool text NOT NULL,
    tenant text NOT NULL,
    clock numeric(40,0) NOT NULL,
    CONSTRAINT gpu_clocks_clock_check CHECK ((clock >= (0)::numeric))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');
CREATE TABLE public.gpu_event_stream (
    single boolean DEFAULT true NOT NULL,
    "position" bigint NOT NULL,
    published bigint NOT NULL,
    CONSTRAINT gpu_event_stream_position_check CHECK (("position" >= 0)),
    CONSTRAINT gpu_event_stream_published_check CHECK ((published >= 0)),
    CONSTRAINT gpu_event_stream_single_check CHECK (single),
    CONSTRAINT only_placed_events_are_published CHECK ((published <= "position"))
);
CREATE TABLE public.gpu_events (
    number bigint NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    job uuid NOT NULL,
    seq integer NOT NULL,
    type text NOT NULL,
    tenant text NOT NULL,
    project text,
    pool text,
    at timestamp with time zone NOT NULL,
    data jsonb NOT NULL,
    "position" bigint,
    CONSTRAINT gpu_events_seq_check CHECK ((seq >= 1)),
    CONSTRAINT gpu_events_type_check CHECK ((type = ANY (ARRAY['enqueued'::text, 'dispatched'::text, 'launched'::text, 'started'::text, 'requeued'::text, 'preempted'::text, 'idle'::text, 'priority_changed'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text, 'expired'::text])))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02');
ALTER TABLE public.gpu_events ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.gpu_events_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.gpu_foreign_pods (
    pool text NOT NULL,
    resource text NOT NULL,
    node integer NOT NULL,
    tenant text NOT NULL,
    capacity_type text NOT NULL,
    units integer NOT NULL,
    gpu_micro bigint NOT NULL,
    CONSTRAINT gpu_foreign_pods_gpu_micro_check CHECK ((gpu_micro > 0)),
    CONSTRAINT gpu_foreign_pods_node_check CHECK ((node >= 0)),
    CONSTRAINT gpu_foreign_pods_units_check CHECK ((units > 0))
);
CREATE TABLE public.gpu_idempotency (
    tenant text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    job_ids uuid[] NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT gpu_idempotency_job_ids_check CHECK ((cardinality(job_ids) >= 1))
);
CREATE TABLE public.gpu_job_history (
    id uuid CONSTRAINT gpu_jobs_id_not_null NOT NULL,
    tenant text CONSTRAINT gpu_jobs_tenant_not_null NOT NULL,
    project text,
    user_name text CONSTRAINT gpu_jobs_user_name_not_null NOT NULL,
    name text CONSTRAINT gpu_jobs_name_not_null NOT NULL,
    group_id uuid,
    group_index integer,
    state text CONSTRAINT gpu_jobs_state_not_null NOT NULL,
    version integer DEFAULT 1 CONSTRAINT gpu_jobs_version_not_null NOT NULL,
    seq integer DEFAULT 0 CONSTRAINT gpu_jobs_seq_not_null NOT NULL,
    attempt integer DEFAULT 0 CONSTRAINT gpu_jobs_attempt_not_null NOT NULL,
    failures integer DEFAULT 0 CONSTRAINT gpu_jobs_failures_not_null NOT NULL,
    disruptions integer DEFAULT 0 CONSTRAINT gpu_jobs_disruptions_not_null NOT NULL,
    spot_losses integer DEFAULT 0 CONSTRAINT gpu_jobs_spot_losses_not_null NOT NULL,
    retries integer CONSTRAINT gpu_jobs_retries_not_null NOT NULL,
    priority text CONSTRAINT gpu_jobs_priority_not_null NOT NULL,
    level smallint CONSTRAINT gpu_jobs_level_not_null NOT NULL,
    isolation text CONSTRAINT gpu_jobs_isolation_not_null NOT NULL,
    gpu_count integer CONSTRAINT gpu_jobs_gpu_count_not_null NOT NULL,
    preemptible boolean CONSTRAINT gpu_jobs_preemptible_not_null NOT NULL,
    preempts boolean CONSTRAINT gpu_jobs_preempts_not_null NOT NULL,
    request jsonb CONSTRAINT gpu_jobs_request_not_null NOT NULL,
    offers jsonb CONSTRAINT gpu_jobs_offers_not_null NOT NULL,
    lane text CONSTRAINT gpu_jobs_lane_not_null NOT NULL,
    timeout_s integer CONSTRAINT gpu_jobs_timeout_s_not_null NOT NULL,
    budget_limit_micro bigint,
    depends_on uuid,
    blocked boolean DEFAULT false CONSTRAINT gpu_jobs_blocked_not_null NOT NULL,
    enqueued_at timestamp with time zone CONSTRAINT gpu_jobs_enqueued_at_not_null NOT NULL,
    not_before timestamp with time zone,
    deadline_at timestamp with time zone,
    decided_at timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    pool text,
    resource text,
    capacity_type text,
    placement jsonb,
    gpu_key text,
    gpu_micro bigint,
    rate_micro bigint,
    hold_micro bigint,
    run_limit_s integer,
    plan_hash text CONSTRAINT gpu_jobs_plan_hash_not_null NOT NULL,
    executor text,
    lease_until timestamp with time zone,
    preempt_reason jsonb,
    cancel_requested boolean DEFAULT false CONSTRAINT gpu_jobs_cancel_requested_not_null NOT NULL,
    waiting jsonb,
    reason text,
    exit_code integer,
    cost_micro bigint DEFAULT 0 CONSTRAINT gpu_jobs_cost_micro_not_null NOT NULL,
    changed xid8 DEFAULT pg_current_xact_id() CONSTRAINT gpu_jobs_changed_not_null NOT NULL,
    CONSTRAINT at_least_one_offer CHECK (((jsonb_typeof(offers) = 'array'::text) AND (jsonb_array_length(offers) >= 1))),
    CONSTRAINT attempts_are_counted_once CHECK (((failures + disruptions) <= attempt)),
    CONSTRAINT ended_jobs_wait_for_nothing CHECK (((state = ANY (ARRAY['queued'::text, 'dispatching'::text, 'running'::text])) OR (waiting IS NULL))),
    CONSTRAINT final_jobs_have_an_end CHECK (((state = ANY (ARRAY['succeeded'::text, 'failed'::text, 'cancelled'::text, 'expired'::text])) = (finished_at IS NOT NULL))),
    CONSTRAINT gpu_jobs_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT gpu_jobs_budget_limit_micro_check CHECK ((budget_limit_micro >= 0)),
    CONSTRAINT gpu_jobs_capacity_type_check CHECK ((capacity_type = ANY (ARRAY['spot'::text, 'on-demand'::text]))),
    CONSTRAINT gpu_jobs_check CHECK (((spot_losses >= 0) AND (spot_losses <= disruptions))),
    CONSTRAINT gpu_jobs_cost_micro_check CHECK ((cost_micro >= 0)),
    CONSTRAINT gpu_jobs_disruptions_check CHECK ((disruptions >= 0)),
    CONSTRAINT gpu_jobs_failures_check CHECK ((failures >= 0)),
    CONSTRAINT gpu_jobs_gpu_count_check CHECK ((gpu_count >= 1)),
    CONSTRAINT gpu_jobs_gpu_micro_check CHECK ((gpu_micro > 0)),
    CONSTRAINT gpu_jobs_hold_micro_check CHECK ((hold_micro >= 0)),
    CONSTRAINT gpu_jobs_isolation_check CHECK ((isolation = ANY (ARRAY['shared'::text, 'exclusive'::text]))),
    CONSTRAINT gpu_jobs_level_check CHECK (((level >= 0) AND (level <= 3))),
    CONSTRAINT gpu_jobs_rate_micro_check CHECK ((rate_micro >= 0)),
    CONSTRAINT gpu_jobs_retries_check CHECK ((retries >= 0)),
    CONSTRAINT gpu_jobs_run_limit_s_check CHECK ((run_limit_s >= 1)),
    CONSTRAINT gpu_jobs_seq_check CHECK ((seq >= 0)),
    CONSTRAINT gpu_jobs_timeout_s_check CHECK ((timeout_s >= 1)),
    CONSTRAINT gpu_jobs_version_check CHECK ((version >= 1)),
    CONSTRAINT held_jobs_have_a_hold CHECK (((state = ANY (ARRAY['dispatching'::text, 'running'::text])) = (hold_micro IS NOT NULL))),
    CONSTRAINT held_jobs_have_a_lease CHECK (((state = ANY (ARRAY['dispatching'::text, 'running'::text])) = (lease_until IS NOT NULL))),
    CONSTRAINT held_jobs_have_a_place CHECK (((state <> ALL (ARRAY['dispatching'::text, 'running'::text])) OR ((attempt > 0) AND (decided_at IS NOT NULL) AND (num_nulls(pool, resource, capacity_type, placement, gpu_key, gpu_micro, rate_micro, run_limit_s) = 0)))),
    CONSTRAINT history_is_final CHECK ((finished_at IS NOT NULL)),
    CONSTRAINT known_state CHECK ((state = ANY (ARRAY['queued'::text, 'dispatching'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text, 'expired'::text]))),
    CONSTRAINT members_of_a_group_have_an_index CHECK (((group_id IS NULL) = (group_index IS NULL))),
    CONSTRAINT only_dependents_are_blocked CHECK (((NOT blocked) OR (depends_on IS NOT NULL))),
    CONSTRAINT only_held_jobs_are_asked_to_stop CHECK (((state = ANY (ARRAY['dispatching'::text, 'running'::text])) OR ((preempt_reason IS NULL) AND (NOT cancel_requested)))),
    CONSTRAINT only_held_jobs_have_an_executor CHECK (((state = ANY (ARRAY['dispatching'::text, 'running'::text])) OR (executor IS NULL))),
    CONSTRAINT only_queued_jobs_are_held_back CHECK (((state = 'queued'::text) OR ((not_before IS NULL) AND (NOT blocked)))),
    CONSTRAINT queued_jobs_have_no_place CHECK (((state <> 'queued'::text) OR (num_nonnulls(pool, resource, capacity_type, placement, gpu_key, gpu_micro, rate_micro, run_limit_s, decided_at, started_at) = 0))),
    CONSTRAINT running_jobs_have_started CHECK (
CASE state
    WHEN 'running'::text THEN (started_at IS NOT NULL)
    WHEN 'dispatching'::text THEN (started_at IS NULL)
    ELSE true
END)
);
CREATE TABLE public.gpu_jobs (
    id uuid NOT NULL,
    tenant text NOT NULL,
    project text,
    user_name text NOT NULL,
    name text NOT NULL,
    group_id uuid,
    group_index integer,
    state text NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    seq integer DEFAULT 0 NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    disruptions integer DEFAULT 0 NOT NULL,
    spot_losses integer DEFAULT 0 NOT NULL,
    retries integer NOT NULL,
    priority text NOT NULL,
    level smallint NOT NULL,
    isolation text NOT NULL,
    gpu_count integer NOT NULL,
    preemptible boolean NOT NULL,
    preempts boolean NOT NULL,
    request jsonb NOT NULL,
    offers jsonb NOT NULL,
    lane text NOT NULL,
    timeout_s integer NOT NULL,
    budget_limit_micro bigint,
    depends_on uuid,
    blocked boolean DEFAULT false NOT NULL,
    enqueued_at timestamp with time zone NOT NULL,
    not_before timestamp with time zone,
    deadline_at timestamp with time zone,
    decided_at timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    pool text,
    resource text,
    capacity_type text,
    placement jsonb,
    gpu_key text,
    gpu_micro bigint,
    rate_micro bigint,
    hold_micro bigint,
    run_limit_s integer,
    plan_hash text NOT NULL,
    executor text,
    lease_until timestamp with time zone,
    preempt_reason jsonb,
    cancel_requested boolean DEFAULT false NOT NULL,
    waiting jsonb,
    reason text,
    exit_code integer,
    cost_micro bigint DEFAULT 0 NOT NULL,
    changed xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT at_least_one_offer CHECK (((jsonb_typeof(offers) = 'array'::text) AND (jsonb_array_length(offers) >= 1))),
    CONSTRAINT attempts_are_counted_once CHECK (((failures + disruptions) <= attempt)),
    CONSTRAINT ended_jobs_wait_for_nothing CHECK (((state = ANY (ARRAY['queued'::text, 'dispatching'::text, 'running'::text])) OR (waiting IS NULL))),
    CONSTRAINT final_jobs_have_an_end CHECK (((state = ANY (ARRAY['succeeded'::text, 'failed'::text, 'cancelled'::text, 'expired'::text])) = (finished_at IS NOT NULL))),
    CONSTRAINT gpu_jobs_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT gpu_jobs_budget_limit_micro_check CHECK ((budget_limit_micro >= 0)),
    CONSTRAINT gpu_jobs_capacity_type_check CHECK ((capacity_type = ANY (ARRAY['spot'::text, 'on-demand'::text]))),
    CONSTRAINT gpu_jobs_check CHECK (((spot_losses >= 0) AND (spot_losses <= disruptions))),
    CONSTRAINT gpu_jobs_cost_micro_check CHECK ((cost_micro >= 0)),
    CONSTRAINT gpu_jobs_disruptions_check CHECK ((disruptions >= 0)),
    CONSTRAINT gpu_jobs_failures_check CHECK ((failures >= 0)),
    CONSTRAINT gpu_jobs_gpu_count_check CHECK ((gpu_count >= 1)),
    CONSTRAINT gpu_jobs_gpu_micro_check CHECK ((gpu_micro > 0)),
    CONSTRAINT gpu_jobs_hold_micro_check CHECK ((hold_micro >= 0)),
    CONSTRAINT gpu_jobs_isolation_check CHECK ((isolation = ANY (ARRAY['shared'::text, 'exclusive'::text]))),
    CONSTRAINT gpu_jobs_level_check CHECK (((level >= 0) AND (level <= 3))),
    CONSTRAINT gpu_jobs_rate_micro_check CHECK ((rate_micro >= 0)),
    CONSTRAINT gpu_jobs_retries_check CHECK ((retries >= 0)),
    CONSTRAINT gpu_jobs_run_limit_s_check CHECK ((run_limit_s >= 1)),
    CONSTRAINT gpu_jobs_seq_check CHECK ((seq >= 0)),
    CONSTRAINT gpu_jobs_timeout_s_check CHECK ((timeout_s >= 1)),
    CONSTRAINT gpu_jobs_version_check CHECK ((version >= 1)),
    CONSTRAINT held_jobs_have_a_hold CHECK (((state = ANY (ARRAY['dispatching'::text, 'running'::text])) = (hold_micro IS NOT NULL))),
    CONSTRAINT held_jobs_have_a_lease CHECK (((state = ANY (ARRAY['dispatching'::text, 'running'::text])) = (lease_until IS NOT NULL))),
    CONSTRAINT held_jobs_have_a_place CHECK (((state <> ALL (ARRAY['dispatching'::text, 'running'::text])) OR ((attempt > 0) AND (decided_at IS NOT NULL) AND (num_nulls(pool, resource, capacity_type, placement, gpu_key, gpu_micro, rate_micro, run_limit_s) = 0)))),
    CONSTRAINT known_state CHECK ((state = ANY (ARRAY['queued'::text, 'dispatching'::text, 'running'::text, 'succeeded'::text, 'failed'::text, 'cancelled'::text, 'expired'::text]))),
    CONSTRAINT members_of_a_group_have_an_index CHECK (((group_id IS NULL) = (group_index IS NULL))),
    CONSTRAINT only_dependents_are_blocked CHECK (((NOT blocked) OR (depends_on IS NOT NULL))),
    CONSTRAINT only_held_jobs_are_asked_to_stop CHECK (((state = ANY (ARRAY['dispatching'::text, 'running'::text])) OR ((preempt_reason IS NULL) AND (NOT cancel_requested)))),
    CONSTRAINT only_held_jobs_have_an_executor CHECK (((state = ANY (ARRAY['dispatching'::text, 'running'::text])) OR (executor IS NULL))),
    CONSTRAINT only_queued_jobs_are_held_back CHECK (((state = 'queued'::text) OR ((not_before IS NULL) AND (NOT blocked)))),
    CONSTRAINT queued_jobs_have_no_place CHECK (((state <> 'queued'::text) OR (num_nonnulls(pool, resource, capacity_type, placement, gpu_key, gpu_micro, rate_micro, run_limit_s, decided_at, started_at) = 0))),
    CONSTRAINT running_jobs_have_started CHECK (
CASE state
    WHEN 'running'::text THEN (started_at IS NOT NULL)
    WHEN 'dispatching'::text THEN (started_at IS NULL)
    ELSE true
END)
)
WITH (fillfactor='85', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02', autovacuum_vacuum_cost_delay='1');
CREATE TABLE public.gpu_keys (
    id text NOT NULL,
    hash bytea NOT NULL,
    name text NOT NULL,
    tenants text[] NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone,
    CONSTRAINT gpu_keys_scopes_check CHECK ((cardinality(scopes) >= 1)),
    CONSTRAINT gpu_keys_tenants_check CHECK ((cardinality(tenants) >= 1)),
    CONSTRAINT sha256 CHECK ((octet_length(hash) = 32))
);
CREATE TABLE public.gpu_lanes (
    tenant text NOT NULL,
    lane text NOT NULL,
    offers jsonb NOT NULL,
    level smallint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='200');
CREATE TABLE public.gpu_leader (
    role text NOT NULL,
    holder text NOT NULL,
    epoch bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT gpu_leader_epoch_check CHECK ((epoch >= 1))
);
CREATE TABLE public.gpu_ledger (
    id bigint NOT NULL,
    job uuid NOT NULL,
    attempt integer NOT NULL,
    kind text NOT NULL,
    micro bigint NOT NULL,
    tenant text NOT NULL,
    project text,
    period_tenant date NOT NULL,
    period_project date,
    at timestamp with time zone NOT NULL,
    CONSTRAINT a_project_has_a_period CHECK (((project IS NULL) = (period_project IS NULL))),
    CONSTRAINT gpu_ledger_kind_check CHECK ((kind = ANY (ARRAY['hold'::text, 'settle'::text, 'release'::text]))),
    CONSTRAINT gpu_ledger_micro_check CHECK ((micro >= 0))
)
WITH (autovacuum_vacuum_insert_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02');
ALTER TABLE public.gpu_ledger ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.gpu_ledger_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.gpu_logs (
    job uuid NOT NULL,
    number bigint NOT NULL,
    attempt integer NOT NULL,
    at timestamp with time zone NOT NULL,
    text text NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.02');
ALTER TABLE public.gpu_logs ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.gpu_logs_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.gpu_reservations (
    pool text NOT NULL,
    job uuid NOT NULL,
    since timestamp with time zone NOT NULL
);
CREATE TABLE public.gpu_results (
    job uuid NOT NULL,
    status integer NOT NULL,
    headers jsonb NOT NULL,
    body bytea NOT NULL,
    truncated boolean NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT first_mebibyte CHECK ((octet_length(body) <= 1048576))
);
CREATE TABLE public.gpu_schema_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.tenant_gpu_policies (
    tenant text NOT NULL,
    tenant_id uuid,
    weight double precision DEFAULT 1 NOT NULL,
    running_limit integer,
    queued_limit integer,
    gpus_per_job integer,
    budget_micro bigint,
    period text DEFAULT 'month'::text NOT NULL,
    projects jsonb DEFAULT '{}'::jsonb NOT NULL,
    queued integer DEFAULT 0 NOT NULL,
    plan_hash text,
    CONSTRAINT queued_is_counted CHECK ((queued >= 0)),
    CONSTRAINT tenant_gpu_policies_budget_micro_check CHECK ((budget_micro >= 0)),
    CONSTRAINT tenant_gpu_policies_gpus_per_job_check CHECK ((gpus_per_job >= 0)),
    CONSTRAINT tenant_gpu_policies_period_check CHECK ((period = ANY (ARRAY['day'::text, 'week'::text, 'month'::text]))),
    CONSTRAINT tenant_gpu_policies_queued_limit_check CHECK ((queued_limit >= 0)),
    CONSTRAINT tenant_gpu_policies_running_limit_check CHECK ((running_limit >= 0)),
    CONSTRAINT tenant_gpu_policies_weight_check CHECK ((weight > (0)::double precision))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');
COPY public.gpu_accounts (scope, name, period, spent_micro, held_micro, settled_at) FROM stdin;
project	vision/detector	2026-11-01	1	0	2026-11-27 09:19:18.257965+00
tenant	vision	2026-11-01	3	388833	2026-11-27 09:19:18.369255+00
\.
COPY public.gpu_alerts (scope, name, period, threshold, spent_micro, limit_micro, due_at, sent_at, tries, taken, text) FROM stdin;
\.
COPY public.gpu_attempts (job, attempt, tenant, project, pool, resource, capacity_type, placement, gpu_micro, rate_micro, plan_hash, decided_at, launched_at, node, started_at, finished_at, outcome, reason, exit_code, cost_micro, logged_until) FROM stdin;
01a21c4d-4ed4-7e7a-9ced-25191bb16d9a	1	vision	detector	notebooks	nvidia.com/gpu	on-demand	[[0, 1]]	125000	65750	32532b9d26028075	2026-11-27 09:19:18.235586+00	\N	\N	2026-11-27 09:19:18.249254+00	2026-11-27 09:19:18.257965+00	succeeded	\N	0	1	\N
01a21c4d-4f15-7379-a169-b65f456bfae1	1	vision	\N	notebooks	nvidia.com/gpu	on-demand	[[0, 1]]	125000	65750	32532b9d26028075	2026-11-27 09:19:18.296138+00	\N	\N	2026-11-27 09:19:18.305245+00	2026-11-27 09:19:18.310394+00	succeeded	\N	0	1	\N
01a21c4d-4f3e-7928-8c0c-d9976ea2819f	1	vision	\N	notebooks	nvidia.com/gpu	on-demand	[[0, 1]]	125000	65750	32532b9d26028075	2026-11-27 09:19:18.336383+00	\N	\N	2026-11-27 09:19:18.343877+00	2026-11-27 09:19:18.369255+00	failed	exit code 3	3	1	\N
01a21c4d-4f68-7ad3-a749-a2ae1a9fbd14	1	vision	\N	research-a100	nvidia.com/gpu	spot	[[1, 1]]	333333	388833	32532b9d26028075	2026-11-27 09:19:18.378725+00	\N	\N	2026-11-27 09:19:18.385742+00	\N	\N	\N	\N	0	\N
\.
COPY public.gpu_callbacks (job, url, due_at, tries) FROM stdin;
\.
COPY public.gpu_clocks (pool, tenant, clock) FROM stdin;
notebooks	vision	2452
research-a100	vision	599999400
\.
COPY public.gpu_event_stream (single, "position", published) FROM stdin;
t	0	0
\.
COPY public.gpu_events (number, id, job, seq, type, tenant, project, pool, at, data, "position") FROM stdin;
1	1d60cf96-6a4c-4530-98f0-012425cf1de7	01a21c4d-4ed4-7e7a-9ced-25191bb16d9a	1	enqueued	vision	detector	\N	2026-11-27 09:19:18.229525+00	{"state": "queued", "attempt": 0, "priority": "low", "isolation": "shared"}	\N
2	67b3eb6a-5caa-47be-a177-e4afdf24f56e	01a21c4d-4ed4-7e7a-9ced-25191bb16d9a	2	dispatched	vision	detector	notebooks	2026-11-27 09:19:18.235586+00	{"key": "t4", "state": "dispatching", "attempt": 1, "resource": "nvidia.com/gpu", "gpu_micro": 125000, "isolation": "shared", "placement": [[0, 1]], "plan_hash": "32532b9d26028075", "hold_micro": 10959, "rate_micro": 65750, "capacity_type": "on-demand"}	\N
3	32db49ec-c99d-44c3-bd5d-31087033fe07	01a21c4d-4ed4-7e7a-9ced-25191bb16d9a	3	started	vision	detector	notebooks	2026-11-27 09:19:18.249254+00	{"state": "running", "attempt": 1, "executor": "01a21c4d-4ed4-7802-bbd9-249bd71a398e"}	\N
4	638fcf21-2381-4618-8422-c5b82229eb3c	01a21c4d-4ed4-7e7a-9ced-25191bb16d9a	4	succeeded	vision	detector	notebooks	2026-11-27 09:19:18.257965+00	{"state": "succeeded", "attempt": 1, "outcome": "succeeded", "failures": 0, "exit_code": 0, "cost_micro": 1, "disruptions": 0}	\N
5	3e962bdd-9d35-48b7-b2e1-1c98985ddff6	01a21c4d-4f15-7379-a169-b65f456bfae1	1	enqueued	vision	\N	\N	2026-11-27 09:19:18.293351+00	{"state": "queued", "attempt": 0, "priority": "low", "isolation": "shared"}	\N
6	6772247f-ff9d-4d26-bb61-fdf0f73027bd	01a21c4d-4f15-7379-a169-b65f456bfae1	2	dispatched	vision	\N	notebooks	2026-11-27 09:19:18.296138+00	{"key": "t4", "state": "dispatching", "attempt": 1, "resource": "nvidia.com/gpu", "gpu_micro": 125000, "isolation": "shared", "placement": [[0, 1]], "plan_hash": "32532b9d26028075", "hold_micro": 10959, "rate_micro": 65750, "capacity_type": "on-demand"}	\N
7	dbe44138-ae60-4d71-ad3f-2756cf13a27e	01a21c4d-4f15-7379-a169-b65f456bfae1	3	started	vision	\N	notebooks	2026-11-27 09:19:18.305245+00	{"state": "running", "attempt": 1, "executor": "01a21c4d-4ed4-7802-bbd9-249bd71a398e"}	\N
8	19bf7daa-c59a-4905-92d7-0e667bf282b8	01a21c4d-4f15-7379-a169-b65f456bfae1	4	succeeded	vision	\N	notebooks	2026-11-27 09:19:18.310394+00	{"state": "succeeded", "attempt": 1, "outcome": "succeeded", "failures": 0, "exit_code": 0, "cost_micro": 1, "disruptions": 0}	\N
9	e86b609c-1768-4aae-801a-eb5956ec001a	01a21c4d-4f3e-7928-8c0c-d9976ea2819f	1	enqueued	vision	\N	\N	2026-11-27 09:19:18.334404+00	{"state": "queued", "attempt": 0, "priority": "low", "isolation": "shared"}	\N
10	7713a709-1b51-4ddb-a4ac-acd109ca0c9d	01a21c4d-4f3e-7928-8c0c-d9976ea2819f	2	dispatched	vision	\N	notebooks	2026-11-27 09:19:18.336383+00	{"key": "t4", "state": "dispatching", "attempt": 1, "resource": "nvidia.com/gpu", "gpu_micro": 125000, "isolation": "shared", "placement": [[0, 1]], "plan_hash": "32532b9d26028075", "hold_micro": 10959, "rate_micro": 65750, "capacity_type": "on-demand"}	\N
11	237980e0-f9d1-4cc9-a2ec-18dc8b902814	01a21c4d-4f3e-7928-8c0c-d9976ea2819f	3	started	vision	\N	notebooks	2026-11-27 09:19:18.343877+00	{"state": "running", "attempt": 1, "executor": "01a21c4d-4ed4-7802-bbd9-249bd71a398e"}	\N
12	4880ee08-f424-4806-914e-3b12a0152ff6	01a21c4d-4f3e-7928-8c0c-d9976ea2819f	4	failed	vision	\N	notebooks	2026-11-27 09:19:18.369255+00	{"state": "failed", "reason": "exit code 3", "attempt": 1, "outcome": "failed", "failures": 1, "exit_code": 3, "cost_micro": 1, "disruptions": 0}	\N
13	01a4a08f-45ef-40ec-9996-0c4ee3ee85b7	01a21c4d-4f68-7ad3-a749-a2ae1a9fbd14	1	enqueued	vision	\N	\N	2026-11-27 09:19:18.377206+00	{"state": "queued", "attempt": 0, "priority": "low", "isolation": "shared"}	\N
14	186b1ae0-bac5-449d-808e-1fc2c40163bf	01a21c4d-4f68-7ad3-a749-a2ae1a9fbd14	2	dispatched	vision	\N	research-a100	2026-11-27 09:19:18.378725+00	{"key": "a100-80gb", "state": "dispatching", "attempt": 1, "resource": "nvidia.com/gpu", "gpu_micro": 333333, "isolation": "shared", "placement": [[1, 1]], "plan_hash": "32532b9d26028075", "hold_micro": 388833, "rate_micro": 388833, "capacity_type": "spot"}	\N
15	67f9ce37-8b1f-4b61-8ae9-bb4c604e8b89	01a21c4d-4f68-7ad3-a749-a2ae1a9fbd14	3	started	vision	\N	research-a100	2026-11-27 09:19:18.385742+00	{"state": "running", "attempt": 1, "executor": "01a21c4d-4ed4-7802-bbd9-249bd71a398e"}	\N
16	36362517-800c-4f09-b6d7-9af47e4c026a	01a21c4d-4f8d-7848-ac99-eb9ab2d015a6	1	enqueued	vision	ocr	\N	2026-11-27 09:19:18.413547+00	{"state": "queued", "attempt": 0, "priority": "low", "isolation": "shared"}	\N
17	9869b683-48de-4630-8868-ce077bfccccd	01a21c4d-4f8f-7dcb-b045-3747c8a3a077	1	enqueued	vision	\N	\N	2026-11-27 09:19:18.415337+00	{"state": "queued", "attempt": 0, "priority": "low", "isolation": "shared"}	\N
18	129381dd-9730-49b5-b373-138cc4f99023	01a21c4d-4f91-7c67-865c-b75e41d25c34	1	enqueued	vision	\N	\N	2026-11-27 09:19:18.418019+00	{"state": "queued", "attempt": 0, "priority": "low", "isolation": "shared"}	\N
19	9bc94863-0e26-4c9a-96b3-ad07e549ee5b	01a21c4d-4f91-7b68-aaf1-ad61fd53fbf8	1	enqueued	vision	\N	\N	2026-11-27 09:19:18.41802+00	{"state": "queued", "attempt": 0, "priority": "low", "isolation": "shared"}	\N
\.
COPY public.gpu_foreign_pods (pool, resource, node, tenant, capacity_type, units, gpu_micro) FROM stdin;
\.
COPY public.gpu_idempotency (tenant, key, fingerprint, job_ids, created_at) FROM stdin;
\.
COPY public.gpu_job_history (id, tenant, project, user_name, name, group_id, group_index, state, version, seq, attempt, failures, disruptions, spot_losses, retries, priority, level, isolation, gpu_count, preemptible, preempts, request, offers, lane, timeout_s, budget_limit_micro, depends_on, blocked, enqueued_at, not_before, deadline_at, decided_at, started_at, finished_at, pool, resource, capacity_type, placement, gpu_key, gpu_micro, rate_micro, hold_micro, run_limit_s, plan_hash, executor, lease_until, preempt_reason, cancel_requested, waiting, reason, exit_code, cost_micro, changed) FROM stdin;
01a21c4d-4ed4-7e7a-9ced-25191bb16d9a	vision	detector	ada	archived	\N	\N	succeeded	4	4	1	0	0	0	1	low	0	shared	1	t	f	{"target_url": "http://example/x", "request_json": {"x": 1}}	[{"key": "t4", "pool": "notebooks", "units": 1, "request": 1, "resource": "nvidia.com/gpu", "gpu_micro": 125000, "rate_micro": 65750, "spot_rate_micro": null}]	2a1e804ff2d5e5011680857845f34385	600	\N	\N	f	2026-11-27 09:19:18.229525+00	\N	\N	2026-11-27 09:19:18.235586+00	2026-11-27 09:19:18.249254+00	2026-11-27 09:19:18.257965+00	notebooks	nvidia.com/gpu	on-demand	[[0, 1]]	t4	125000	65750	\N	600	32532b9d26028075	\N	\N	\N	f	\N	\N	0	1	761
\.
COPY public.gpu_jobs (id, tenant, project, user_name, name, group_id, group_index, state, version, seq, attempt, failures, disruptions, spot_losses, retries, priority, level, isolation, gpu_count, preemptible, preempts, request, offers, lane, timeout_s, budget_limit_micro, depends_on, blocked, enqueued_at, not_before, deadline_at, decided_at, started_at, finished_at, pool, resource, capacity_type, placement, gpu_key, gpu_micro, rate_micro, hold_micro, run_limit_s, plan_hash, executor, lease_until, preempt_reason, cancel_requested, waiting, reason, exit_code, cost_micro, changed) FROM stdin;
01a21c4d-4f15-7379-a169-b65f456bfae1	vision	\N	ada	succeeded	\N	\N	succeeded	4	4	1	0	0	0	1	low	0	shared	1	t	f	{"target_url": "http://example/x", "request_json": {"x": 1}}	[{"key": "t4", "pool": "notebooks", "units": 1, "request": 1, "resource": "nvidia.com/gpu", "gpu_micro": 125000, "rate_micro": 65750, "spot_rate_micro": null}]	dfc93ca81b8c0914822806434ede42cb	600	\N	\N	f	2026-11-27 09:19:18.293351+00	\N	\N	2026-11-27 09:19:18.296138+00	2026-11-27 09:19:18.305245+00	2026-11-27 09:19:18.310394+00	notebooks	nvidia.com/gpu	on-demand	[[0, 1]]	t4	125000	65750	\N	600	32532b9d26028075	\N	\N	\N	f	\N	\N	0	1	770
01a21c4d-4f3e-7928-8c0c-d9976ea2819f	vision	\N	ada	failed	\N	\N	failed	4	4	1	1	0	0	0	low	0	shared	1	t	f	{"container_image": "train:1", "container_command": ["python3", "-c", "print('ü'); raise SystemExit(3)"]}	[{"key": "t4", "pool": "notebooks", "units": 1, "request": 1, "resource": "nvidia.com/gpu", "gpu_micro": 125000, "rate_micro": 65750, "spot_rate_micro": null}]	dfc93ca81b8c0914822806434ede42cb	600	\N	\N	f	2026-11-27 09:19:18.334404+00	\N	\N	2026-11-27 09:19:18.336383+00	2026-11-27 09:19:18.343877+00	2026-11-27 09:19:18.369255+00	notebooks	nvidia.com/gpu	on-demand	[[0, 1]]	t4	125000	65750	\N	600	32532b9d26028075	\N	\N	\N	f	\N	exit code 3	3	1	777
01a21c4d-4f68-7ad3-a749-a2ae1a9fbd14	vision	\N	ada	running	\N	\N	running	3	3	1	0	0	0	3	low	0	shared	1	t	f	{"container_image": "train:1", "container_command": ["python3", "-c", "import os,time; time.sleep(0 if os.environ['GPUPOOL_ATTEMPT']!='1' else 600)"]}	[{"key": "a100-80gb", "pool": "research-a100", "units": 1, "request": 1, "resource": "nvidia.com/gpu", "gpu_micro": 333333, "rate_micro": 1143627, "spot_rate_micro": 388833}, {"key": "h100-80gb", "pool": "research-h100", "units": 1, "request": 1, "resource": "nvidia.com/gpu", "gpu_micro": 500000, "rate_micro": 3440000, "spot_rate_micro": null}]	2514e00177e9320f4469471882148936	3600	\N	\N	f	2026-11-27 09:19:18.377206+00	\N	\N	2026-11-27 09:19:18.378725+00	2026-11-27 09:19:18.385742+00	\N	research-a100	nvidia.com/gpu	spot	[[1, 1]]	a100-80gb	333333	388833	388833	3600	32532b9d26028075	01a21c4d-4ed4-7802-bbd9-249bd71a398e	2026-11-27 09:19:33.411652+00	\N	f	\N	\N	\N	0	782
01a21c4d-4f8d-7848-ac99-eb9ab2d015a6	vision	ocr	ada	queued	\N	\N	queued	1	1	0	0	0	0	1	low	0	shared	1	t	f	{"target_url": "http://example/x", "request_json": {"x": 1}}	[{"key": "t4", "pool": "notebooks", "units": 1, "request": 1, "resource": "nvidia.com/gpu", "gpu_micro": 125000, "rate_micro": 65750, "spot_rate_micro": null}]	3a96dfa1d2ee9e923a14b931bda6e50a	600	5000000	\N	f	2026-11-27 09:19:18.413547+00	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	x	\N	\N	\N	f	\N	\N	\N	0	784
01a21c4d-4f8f-7dcb-b045-3747c8a3a077	vision	\N	ada	after it	\N	\N	queued	1	1	0	0	0	0	1	low	0	shared	1	t	f	{"target_url": "http://example/x", "request_json": {"x": 1}}	[{"key": "t4", "pool": "notebooks", "units": 1, "request": 1, "resource": "nvidia.com/gpu", "gpu_micro": 125000, "rate_micro": 65750, "spot_rate_micro": null}]	dfc93ca81b8c0914822806434ede42cb	600	\N	01a21c4d-4f8d-7848-ac99-eb9ab2d015a6	t	2026-11-27 09:19:18.415337+00	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	x	\N	\N	\N	f	{"detail": "waits for job 01a21c4d-4f8d-7848-ac99-eb9ab2d015a6", "reason": "dependency"}	\N	\N	0	785
01a21c4d-4f91-7c67-865c-b75e41d25c34	vision	\N	ada	array 0	\N	\N	queued	1	1	0	0	0	0	1	low	0	shared	1	t	f	{"target_url": "http://example/x", "request_json": {"x": 1}}	[{"key": "a10g", "pool": "training", "units": 1, "request": 1, "resource": "nvidia.com/gpu", "gpu_micro": 1000000, "rate_micro": 1418000, "spot_rate_micro": null}]	1c7a227a2fd46d3152deb61d0856319d	600	\N	\N	f	2026-11-27 09:19:18.418019+00	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	x	\N	\N	\N	f	\N	\N	\N	0	786
01a21c4d-4f91-7b68-aaf1-ad61fd53fbf8	vision	\N	ada	array 1	\N	\N	queued	1	1	0	0	0	0	1	low	0	shared	1	t	f	{"target_url": "http://example/x", "request_json": {"x": 1}}	[{"key": "a10g", "pool": "training", "units": 1, "request": 1, "resource": "nvidia.com/gpu", "gpu_micro": 1000000, "rate_micro": 1418000, "spot_rate_micro": null}]	1c7a227a2fd46d3152deb61d0856319d	600	\N	\N	f	2026-11-27 09:19:18.41802+00	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	\N	x	\N	\N	\N	f	\N	\N	\N	0	786
\.
COPY public.gpu_keys (id, hash, name, tenants, scopes, created_at, expires_at, revoked_at, last_used_at) FROM stdin;
joikyzs7plls	\\x7c1120b7f70f1e1c158ea0cd65aba74f0c60bfadd4c80f781ef2e240f5e05ed9	ci	{vision}	{jobs:read,jobs:write}	2026-11-27 09:19:18.419756+00	\N	\N	\N
\.
COPY public.gpu_lanes (tenant, lane, offers, level) FROM stdin;
vision	dfc93ca81b8c0914822806434ede42cb	[{"key": "t4", "pool": "notebooks", "units": 1, "request": 1, "resource": "nvidia.com/gpu", "gpu_micro": 125000, "rate_micro": 65750, "spot_rate_micro": null}]	0
vision	2514e00177e9320f4469471882148936	[{"key": "a100-80gb", "pool": "research-a100", "units": 1, "request": 1, "resource": "nvidia.com/gpu", "gpu_micro": 333333, "rate_micro": 1143627, "spot_rate_micro": 388833}, {"key": "h100-80gb", "pool": "research-h100", "units": 1, "request": 1, "resource": "nvidia.com/gpu", "gpu_micro": 500000, "rate_micro": 3440000, "spot_rate_micro": null}]	0
vision	3a96dfa1d2ee9e923a14b931bda6e50a	[{"key": "t4", "pool": "notebooks", "units": 1, "request": 1, "resource": "nvidia.com/gpu", "gpu_micro": 125000, "rate_micro": 65750, "spot_rate_micro": null}]	0
vision	1c7a227a2fd46d3152deb61d0856319d	[{"key": "a10g", "pool": "training", "units": 1, "request": 1, "resource": "nvidia.com/gpu", "gpu_micro": 1000000, "rate_micro": 1418000, "spot_rate_micro": null}]	0
\.
COPY public.gpu_leader (role, holder, epoch, expires_at) FROM stdin;
dispatcher	01a21c4d-4ed4-7802-bbd9-249bd71a398e	1	2026-11-27 09:20:18.234821+00
janitor	01a21c4d-4ed4-7802-bbd9-249bd71a398e	1	2026-11-27 09:20:18.285135+00
\.
COPY public.gpu_ledger (id, job, attempt, kind, micro, tenant, project, period_tenant, period_project, at) FROM stdin;
1	01a21c4d-4ed4-7e7a-9ced-25191bb16d9a	1	hold	10959	vision	detector	2026-11-01	2026-11-01	2026-11-27 09:19:18.235586+00
2	01a21c4d-4ed4-7e7a-9ced-25191bb16d9a	1	settle	1	vision	detector	2026-11-01	2026-11-01	2026-11-27 09:19:18.257965+00
3	01a21c4d-4ed4-7e7a-9ced-25191bb16d9a	1	release	10958	vision	detector	2026-11-01	2026-11-01	2026-11-27 09:19:18.257965+00
4	01a21c4d-4f15-7379-a169-b65f456bfae1	1	hold	10959	vision	\N	2026-11-01	\N	2026-11-27 09:19:18.296138+00
5	01a21c4d-4f15-7379-a169-b65f456bfae1	1	settle	1	vision	\N	2026-11-01	\N	2026-11-27 09:19:18.310394+00
6	01a21c4d-4f15-7379-a169-b65f456bfae1	1	release	10958	vision	\N	2026-11-01	\N	2026-11-27 09:19:18.310394+00
7	01a21c4d-4f3e-7928-8c0c-d9976ea2819f	1	hold	10959	vision	\N	2026-11-01	\N	2026-11-27 09:19:18.336383+00
8	01a21c4d-4f3e-7928-8c0c-d9976ea2819f	1	settle	1	vision	\N	2026-11-01	\N	2026-11-27 09:19:18.369255+00
9	01a21c4d-4f3e-7928-8c0c-d9976ea2819f	1	release	10958	vision	\N	2026-11-01	\N	2026-11-27 09:19:18.369255+00
10	01a21c4d-4f68-7ad3-a749-a2ae1a9fbd14	1	hold	388833	vision	\N	2026-11-01	\N	2026-11-27 09:19:18.378725+00
\.
COPY public.gpu_logs (job, number, attempt, at, text) FROM stdin;
01a21c4d-4f3e-7928-8c0c-d9976ea2819f	1	1	2026-11-27 09:19:18.363966+00	ü
\.
COPY public.gpu_reservations (pool, job, since) FROM stdin;
\.
COPY public.gpu_results (job, status, headers, body, truncated, at) FROM stdin;
01a21c4d-4ed4-7e7a-9ced-25191bb16d9a	200	[["Content-Type", "application/json; charset=utf-8"], ["Content-Length", "113"], ["Date", "Fri, 27 Nov 2026 09:19:18 GMT"], ["Server", "Python/3.11 aiohttp/3.14.5"]]	\\x7b226563686f223a207b2278223a20317d2c20226d6574686f64223a2022504f5354222c202270617468223a20222f78222c20226a6f62223a202230316132316334642d346564342d376537612d396365642d323531393162623136643961222c2022617474656d7074223a202231227d	f	2026-11-27 09:19:18.258026+00
01a21c4d-4f15-7379-a169-b65f456bfae1	200	[["Content-Type", "application/json; charset=utf-8"], ["Content-Length", "113"], ["Date", "Fri, 27 Nov 2026 09:19:18 GMT"], ["Server", "Python/3.11 aiohttp/3.14.5"]]	\\x7b226563686f223a207b2278223a20317d2c20226d6574686f64223a2022504f5354222c202270617468223a20222f78222c20226a6f62223a202230316132316334642d346631352d373337392d613136392d623635663435366266616531222c2022617474656d7074223a202231227d	f	2026-11-27 09:19:18.310445+00
\.
COPY public.gpu_schema_version (version_num) FROM stdin;
0001
\.
COPY public.tenant_gpu_policies (tenant, tenant_id, weight, running_limit, queued_limit, gpus_per_job, budget_micro, period, projects, queued, plan_hash) FROM stdin;
serving	\N	1	\N	\N	\N	\N	month	{}	0	32532b9d26028075
vision	11111111-1111-1111-1111-111111111111	2	\N	\N	\N	100000000	month	{"ocr": {"period": "month", "budget_micro": null}, "detector": {"period": "month", "budget_micro": null}}	4	32532b9d26028075
\.
SELECT pg_catalog.setval('public.gpu_events_number_seq', 19, true);
SELECT pg_catalog.setval('public.gpu_ledger_id_seq', 10, true);
SELECT pg_catalog.setval('public.gpu_logs_number_seq', 1, true);
ALTER TABLE ONLY public.gpu_events
    ADD CONSTRAINT events_of_a_job_are_numbered UNIQUE (job, seq);
ALTER TABLE ONLY public.gpu_accounts
    ADD CONSTRAINT gpu_accounts_pkey PRIMARY KEY (scope, name, period);
ALTER TABLE ONLY public.gpu_alerts
    ADD CONSTRAINT gpu_alerts_pkey PRIMARY KEY (scope, name, period, threshold);
ALTER TABLE ONLY public.gpu_attempts
    ADD CONSTRAINT gpu_attempts_pkey PRIMARY KEY (job, attempt);
ALTER TABLE ONLY public.gpu_callbacks
    ADD CONSTRAINT gpu_callbacks_pkey PRIMARY KEY (job);
ALTER TABLE ONLY public.gpu_clocks
    ADD CONSTRAINT gpu_clocks_pkey PRIMARY KEY (pool, tenant);
ALTER TABLE ONLY public.gpu_event_stream
    ADD CONSTRAINT gpu_event_stream_pkey PRIMARY KEY (single);
ALTER TABLE ONLY public.gpu_events
    ADD CONSTRAINT gpu_events_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.gpu_foreign_pods
    ADD CONSTRAINT gpu_foreign_pods_pkey PRIMARY KEY (pool, resource, node, tenant);
ALTER TABLE ONLY public.gpu_idempotency
    ADD CONSTRAINT gpu_idempotency_pkey PRIMARY KEY (tenant, key);
ALTER TABLE ONLY public.gpu_job_history
    ADD CONSTRAINT gpu_job_history_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.gpu_jobs
    ADD CONSTRAINT gpu_jobs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.gpu_keys
    ADD CONSTRAINT gpu_keys_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.gpu_lanes
    ADD CONSTRAINT gpu_lanes_pkey PRIMARY KEY (tenant, lane);
ALTER TABLE ONLY public.gpu_leader
    ADD CONSTRAINT gpu_leader_pkey PRIMARY KEY (role);
ALTER TABLE ONLY public.gpu_ledger
    ADD CONSTRAINT gpu_ledger_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.gpu_logs
    ADD CONSTRAINT gpu_logs_pkey PRIMARY KEY (job, number);
ALTER TABLE ONLY public.gpu_reservations
    ADD CONSTRAINT gpu_reservations_pkey PRIMARY KEY (pool);
ALTER TABLE ONLY public.gpu_results
    ADD CONSTRAINT gpu_results_pkey PRIMARY KEY (job);
ALTER TABLE ONLY public.gpu_schema_version
    ADD CONSTRAINT gpu_schema_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.gpu_ledger
    ADD CONSTRAINT one_entry_of_a_kind_per_attempt UNIQUE (job, attempt, kind);
ALTER TABLE ONLY public.tenant_gpu_policies
    ADD CONSTRAINT tenant_gpu_policies_pkey PRIMARY KEY (tenant);
CREATE INDEX gpu_alerts_due ON public.gpu_alerts USING btree (due_at) WHERE (sent_at IS NULL);
CREATE INDEX gpu_attempts_usage ON public.gpu_attempts USING btree (tenant, finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX gpu_callbacks_due ON public.gpu_callbacks USING btree (due_at);
CREATE INDEX gpu_events_at ON public.gpu_events USING brin (at);
CREATE UNIQUE INDEX gpu_events_position ON public.gpu_events USING btree ("position") WHERE ("position" IS NOT NULL);
CREATE INDEX gpu_events_to_place ON public.gpu_events USING btree (number) WHERE ("position" IS NULL);
CREATE INDEX gpu_idempotency_at ON public.gpu_idempotency USING brin (created_at);
CREATE INDEX gpu_job_history_group ON public.gpu_job_history USING btree (group_id) WHERE (group_id IS NOT NULL);
CREATE INDEX gpu_job_history_list ON public.gpu_job_history USING btree (enqueued_at DESC, id DESC);
CREATE INDEX gpu_job_history_list_by_project ON public.gpu_job_history USING btree (project, enqueued_at DESC, id DESC) WHERE (project IS NOT NULL);
CREATE INDEX gpu_job_history_list_by_user ON public.gpu_job_history USING btree (user_name, enqueued_at DESC, id DESC);
CREATE INDEX gpu_job_history_list_of_tenant ON public.gpu_job_history USING btree (tenant, enqueued_at DESC, id DESC);
CREATE INDEX gpu_job_history_list_of_tenant_by_project ON public.gpu_job_history USING btree (tenant, project, enqueued_at DESC, id DESC) WHERE (project IS NOT NULL);
CREATE INDEX gpu_job_history_list_of_tenant_by_user ON public.gpu_job_history USING btree (tenant, user_name, enqueued_at DESC, id DESC);
CREATE INDEX gpu_jobs_backoff ON public.gpu_jobs USING btree (not_before) WHERE (not_before IS NOT NULL);
CREATE INDEX gpu_jobs_changed ON public.gpu_jobs USING btree (changed);
CREATE INDEX gpu_jobs_deadline ON public.gpu_jobs USING btree (deadline_at) WHERE ((state = 'queued'::text) AND (deadline_at IS NOT NULL));
CREATE INDEX gpu_jobs_dependents ON public.gpu_jobs USING btree (depends_on) WHERE blocked;
CREATE INDEX gpu_jobs_ended ON public.gpu_jobs USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX gpu_jobs_group ON public.gpu_jobs USING btree (group_id) WHERE (group_id IS NOT NULL);
CREATE INDEX gpu_jobs_held ON public.gpu_jobs USING btree (state, lease_until) WHERE (state = ANY (ARRAY['dispatching'::text, 'running'::text]));
CREATE INDEX gpu_jobs_lane ON public.gpu_jobs USING btree (tenant, lane, enqueued_at, id) WHERE ((state = 'queued'::text) AND (NOT blocked));
CREATE INDEX gpu_jobs_list ON public.gpu_jobs USING btree (enqueued_at DESC, id DESC);
CREATE INDEX gpu_jobs_list_of_tenant ON public.gpu_jobs USING btree (tenant, enqueued_at DESC, id DESC);
CREATE INDEX gpu_ledger_spent ON public.gpu_ledger USING btree (tenant, at) WHERE (kind = 'settle'::text);
CREATE INDEX gpu_logs_at ON public.gpu_logs USING brin (at);
CREATE INDEX gpu_results_at ON public.gpu_results USING brin (at);
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.gpu_ledger FOR EACH STATEMENT EXECUTE FUNCTION public.gpu_ledger_is_append_only();
CREATE TRIGGER call_back AFTER UPDATE OF finished_at ON public.gpu_jobs FOR EACH ROW WHEN (((old.finished_at IS NULL) AND (new.finished_at IS NOT NULL) AND ((new.request ->> 'callback_url'::text) IS NOT NULL))) EXECUTE FUNCTION public.gpu_jobs_call_back();
CREATE TRIGGER call_back_at_once AFTER INSERT ON public.gpu_jobs FOR EACH ROW WHEN (((new.finished_at IS NOT NULL) AND ((new.request ->> 'callback_url'::text) IS NOT NULL))) EXECUTE FUNCTION public.gpu_jobs_call_back();
CREATE TRIGGER changed BEFORE UPDATE OF version ON public.gpu_jobs FOR EACH ROW EXECUTE FUNCTION public.gpu_job_changed();
