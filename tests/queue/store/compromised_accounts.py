"""What somebody with a part's account of the database tries: SQL, with the ids of jobs as {names}.

ATTEMPTS are refused, STILL are not: docs/operate-queue.md says so.
"""

# ruff: noqa: E501 - a statement is easier to read on one line
from __future__ import annotations

JOB = """INSERT INTO gpu_jobs (id, tenant, user_name, name, state, retries, priority, level, isolation, gpu_count,
    preemptible, preempts, request, offers, lane, timeout_s, plan_hash, enqueued_at{columns})
SELECT gen_random_uuid(), tenant, user_name, name, '{state}', retries, priority, level, isolation, gpu_count,
    preemptible, preempts, request, offers, lane, timeout_s, plan_hash, enqueued_at{values}
FROM gpu_jobs WHERE id = '{{queued}}'"""
PLACE = "pool, resource, capacity_type, placement, gpu_key, gpu_micro, rate_micro, run_limit_s"
HELD = f", attempt, decided_at, lease_until, hold_micro, {PLACE}"
PLACED = ", 't4', 'nvidia.com/gpu', 'spot', '[[0, 1]]', 't4', 1, 0, 60"
DISPATCHED = """UPDATE gpu_jobs SET state = 'scheduled', version = version + 1, decided_at = now(), lease_until = now(),
    hold_micro = 0, pool = 't4', resource = 'nvidia.com/gpu', capacity_type = 'spot', placement = '[[0, 1]]',
    gpu_key = 't4', gpu_micro = 1, rate_micro = 0, run_limit_s = 60{more} WHERE id = '{{queued}}'"""
EVENT = """INSERT INTO gpu_events (job, seq, type, tenant, at, data{columns})
    VALUES ('{{{job}}}', {seq}, '{type}', 'vision', now(), '{{{{}}}}'{values})"""
LEADS = "INSERT INTO gpu_leader VALUES ('{role}', 'thief', 1, '9999-01-01') ON CONFLICT (role) DO UPDATE SET \
holder = 'thief', epoch = gpu_leader.epoch + 1"
KEY = (
    "INSERT INTO gpu_keys (id, hash, name, tenants, scopes, created_at) VALUES ('x', sha256('x'), 'x', '{{*}}', \
'{{admin}}', now())"
)
LEDGER = "INSERT INTO gpu_ledger (job, attempt, kind, micro, tenant, period_tenant, at) VALUES \
('{{running}}', {attempt}, '{kind}', 7, 'vision', '2026-11-01', now())"
RESULT = "INSERT INTO gpu_results (job, status, headers, body, truncated) VALUES ('{queued}', 200, '[]', '', false)"
LOG = "INSERT INTO gpu_logs (job, attempt, at, text) VALUES ('{running}', 1, now(), 'forged')"
ANYBODY = [
    "CREATE TABLE mine (a int)",
    "ALTER TABLE gpu_jobs DISABLE TRIGGER ALL",
    "ALTER TABLE gpu_jobs DROP CONSTRAINT held_jobs_have_a_place",
    "DROP TRIGGER without_decisions ON gpu_jobs",
    "TRUNCATE gpu_events",
    "CREATE FUNCTION gpu_period(at timestamptz, period text, x int) RETURNS date LANGUAGE sql AS 'SELECT now()::date'",
    "CREATE OR REPLACE FUNCTION gpu_refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TRIGGER mine BEFORE INSERT ON gpu_jobs FOR EACH ROW EXECUTE FUNCTION gpu_refuse('x')",
    "CREATE TEMP TABLE t (id uuid, request jsonb, finished_at timestamptz); CREATE TRIGGER c AFTER INSERT ON t "
    "FOR EACH ROW EXECUTE FUNCTION gpu_jobs_call_back()",
    "CREATE SCHEMA mine",
    "CREATE ROLE mine",
    "SET ROLE gpupool",
    "SET SESSION AUTHORIZATION gpupool",
    "ALTER TABLE gpu_jobs OWNER TO CURRENT_USER",
    "SELECT pg_read_file('PG_VERSION')",
    "COPY gpu_keys TO '/tmp/keys'",
    "COPY gpu_foreign_pods FROM PROGRAM 'id'",
    "SET session_replication_role = replica",
    "SET log_statement = 'none'",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gpupool'",
    "SELECT passwd FROM pg_shadow",
    "UPDATE gpu_keys SET hash = sha256('x')",
    "UPDATE gpu_keys SET scopes = '{{admin}}', expires_at = NULL",
    "DELETE FROM gpu_ledger",
    "UPDATE gpu_ledger SET micro = 0",
    "UPDATE gpu_schema_version SET version_num = '0099'",
]
NO_KEYS = [KEY, "UPDATE gpu_keys SET revoked_at = NULL WHERE id = '{key}'"]
NO_JOBS = [
    JOB.format(state="queued", columns="", values=""),
    "UPDATE gpu_jobs SET request = '{{\"container_image\": \"x\"}}' WHERE id = '{running}'",
    "UPDATE gpu_jobs SET tenant = 'ocr' WHERE id = '{queued}'",
    "UPDATE gpu_jobs SET level = 3 WHERE id = '{queued}'",
    "INSERT INTO gpu_idempotency VALUES ('vision', 'k', '', ARRAY['{queued}'::uuid], now())",
]
ATTEMPTS = {
    "api": [
        *ANYBODY,
        *NO_KEYS,
        RESULT,
        LOG,
        "SET ROLE gpupool_dispatcher",
        "SET ROLE gpupool_executor",
        JOB.format(
            state="running", columns=HELD + ", started_at", values=f", 1, now(), now(), 0{PLACED}, now()"
        ),
        JOB.format(state="scheduled", columns=HELD, values=f", 1, now(), now(), 0{PLACED}"),
        JOB.format(state="scheduled", columns="", values=""),
        JOB.format(state="succeeded", columns=", finished_at", values=", now()"),
        JOB.format(state="cancelled", columns=", finished_at, reason", values=", now(), 'because'"),
        JOB.format(state="queued", columns=", attempt", values=", 3"),
        JOB.format(state="queued", columns=", cost_micro", values=", 0"),
        DISPATCHED.format(more=", attempt = attempt + 1"),
        DISPATCHED.format(more=""),
        "UPDATE gpu_jobs SET placement = '[[1, 1]]' WHERE id = '{running}'",
        "UPDATE gpu_jobs SET pool = 'a100' WHERE id = '{running}'",
        "UPDATE gpu_jobs SET hold_micro = 0 WHERE id = '{running}'",
        "UPDATE gpu_jobs SET state = 'succeeded', finished_at = now() WHERE id = '{queued}'",
        "UPDATE gpu_jobs SET state = 'failed', finished_at = now() WHERE id = '{queued}'",
        "UPDATE gpu_jobs SET state = 'succeeded', finished_at = now() WHERE id = '{running}'",
        "UPDATE gpu_jobs SET state = 'scheduled' WHERE id = '{running}'",
        "UPDATE gpu_jobs SET state = 'failed' WHERE id = '{ended}'",
        "UPDATE gpu_jobs SET state = 'queued', finished_at = NULL WHERE id = '{ended}'",
        "UPDATE gpu_jobs SET finished_at = now() WHERE id = '{ended}'",
        "UPDATE gpu_jobs SET reason = 'forged' WHERE id = '{ended}'",
        "UPDATE gpu_jobs SET cancel_requested = true WHERE id = '{queued}'",
        "UPDATE gpu_jobs SET blocked = false WHERE id = '{dependent}'",
        "UPDATE gpu_jobs SET not_before = '9999-01-01' WHERE id = '{queued}'",
        'UPDATE gpu_jobs SET waiting = \'{{"reason": "x", "detail": "y"}}\' WHERE id = \'{queued}\'',
        "UPDATE gpu_jobs SET level = 3 WHERE id = '{running}'",
        "UPDATE gpu_jobs SET preemptible = false WHERE id = '{running}'",
        "UPDATE gpu_jobs SET version = 2000000000 WHERE id = '{queued}'",
        "UPDATE gpu_jobs SET seq = 0 WHERE id = '{running}'",
        "UPDATE gpu_jobs SET seq = seq + 2 WHERE id = '{running}'",
        *NO_JOBS[1:3],
        "UPDATE gpu_jobs SET cost_micro = 0, lease_until = now(), executor = 'thief' WHERE id = '{running}'",
        "DELETE FROM gpu_jobs WHERE id = '{ended}'",
        "UPDATE gpu_jobs SET preempt_reason = '{{}}' WHERE id = '{running}'",
        EVENT.format(job="running", seq=9, type="succeeded", columns="", values=""),
        EVENT.format(job="running", seq=9, type="succeeded", columns=", pool", values=", 't4'"),
        EVENT.format(job="running", seq=9, type="cancelled", columns="", values=""),
        EVENT.format(job="running", seq=4, type="cancelled", columns="", values=""),
        EVENT.format(job="queued", seq=2, type="priority_changed", columns="", values=""),
        EVENT.format(job="queued", seq=2, type="enqueued", columns="", values=""),
        EVENT.format(job="queued", seq=1, type="enqueued", columns=", position", values=", 1"),
        "UPDATE gpu_events SET data = '{{}}'",
        "DELETE FROM gpu_events",
        "UPDATE gpu_event_stream SET published = position",
        *[LEADS.format(role=role) for role in ("dispatcher", "launcher", "relay")],
        "SELECT * FROM gpu_leader FOR UPDATE",
        *[LEDGER.format(attempt=9, kind=kind) for kind in ("hold", "settle", "release")],
        "UPDATE gpu_accounts SET spent_micro = 0",
        "UPDATE gpu_clocks SET clock = 0",
        "INSERT INTO gpu_reservations VALUES ('t4', '{queued}', now())",
        "UPDATE tenant_gpu_policies SET weight = 1000",
        "UPDATE tenant_gpu_policies SET budget_micro = NULL",
        "INSERT INTO tenant_gpu_policies (tenant, weight) VALUES ('mine', 1000)",
        "INSERT INTO gpu_attempts SELECT * FROM gpu_attempts",
        "UPDATE gpu_attempts SET cost_micro = 0",
        "INSERT INTO gpu_callbacks VALUES ('{queued}', 'http://evil.example', now())",
        "SELECT url FROM gpu_callbacks",
        "SELECT text FROM gpu_alerts",
        "INSERT INTO gpu_foreign_pods VALUES ('t4', 'r', 0, 'ocr', 'spot', 1, 1)",
        "LOCK TABLE gpu_jobs IN ACCESS EXCLUSIVE MODE",
        "LOCK TABLE gpu_lanes IN SHARE MODE",
    ],
    "dispatcher": [
        *ANYBODY,
        *NO_KEYS,
        *NO_JOBS[:3],
        NO_JOBS[4],
        RESULT,
        LOG,
        "SELECT * FROM gpu_keys",
        "UPDATE gpu_results SET body = ''",
        "UPDATE gpu_logs SET text = ''",
        "SELECT url FROM gpu_callbacks",
        "INSERT INTO gpu_callbacks VALUES ('{queued}', 'http://evil.example', now())",
        "INSERT INTO gpu_foreign_pods VALUES ('t4', 'r', 0, 'ocr', 'spot', 1, 1)",
        "UPDATE gpu_attempts SET node = 'x', started_at = now(), launched_at = now()",
        *[LEADS.format(role=role) for role in ("launcher", "callbacks")],
        "SET ROLE gpupool_api",
        "SET ROLE gpupool_executor",
    ],
    "executor": [
        *ANYBODY,
        *NO_KEYS,
        *NO_JOBS,
        "SELECT * FROM gpu_keys",
        DISPATCHED.format(more=", attempt = attempt + 1"),
        DISPATCHED.format(more=""),
        "UPDATE gpu_jobs SET pool = 'a100' WHERE id = '{running}'",
        "UPDATE gpu_jobs SET placement = '[[7, 1]]', version = version + 1 WHERE id = '{running}'",
        "UPDATE gpu_jobs SET hold_micro = hold_micro + 1 WHERE id = '{running}'",
        "UPDATE gpu_jobs SET rate_micro = 0, run_limit_s = 999999 WHERE id = '{running}'",
        "UPDATE gpu_jobs SET rate_micro = 0 WHERE id = '{running}'",
        "UPDATE gpu_attempts SET rate_micro = 0 WHERE job = '{running}'",
        "UPDATE gpu_jobs SET borrowed = true WHERE id = '{running}'",
        "UPDATE gpu_attempts SET capacity_type = 'spot-first' WHERE job = '{running}'",
        "UPDATE gpu_jobs SET state = 'scheduled', started_at = NULL WHERE id = '{running}'",
        "UPDATE gpu_jobs SET preempt_reason = '{{\"reason\": \"mine\"}}' WHERE id = '{running}'",
        "UPDATE gpu_jobs SET state = 'failed', finished_at = now() WHERE id = '{queued}'",
        "UPDATE gpu_jobs SET state = 'failed' WHERE id = '{ended}'",
        "UPDATE gpu_jobs SET cost_micro = 0 WHERE id = '{ended}'",
        "UPDATE gpu_jobs SET seq = 0 WHERE id = '{running}'",
        "DELETE FROM gpu_jobs",
        "UPDATE gpu_attempts SET cost_micro = 0 WHERE job = '{ended}'",
        "INSERT INTO gpu_attempts SELECT * FROM gpu_attempts",
        LEDGER.format(attempt=9, kind="hold"),
        *[LEADS.format(role=role) for role in ("dispatcher", "relay", "janitor", "alerts", "idle")],
        "UPDATE gpu_leader SET epoch = epoch + 1 WHERE role = 'dispatcher'",
        "INSERT INTO gpu_reservations VALUES ('t4', '{queued}', now())",
        "UPDATE tenant_gpu_policies SET weight = 1000",
        "UPDATE gpu_event_stream SET published = position",
        "DELETE FROM gpu_events",
        "LOCK TABLE gpu_jobs IN ACCESS EXCLUSIVE MODE",
        "DELETE FROM gpu_logs WHERE job = '{ended}'",
        "SELECT text FROM gpu_alerts",
        "UPDATE gpu_callbacks SET url = 'http://evil.example'",
        "SET ROLE gpupool_api",
        "SET ROLE gpupool_dispatcher",
    ],
    "keys": [*ANYBODY, *NO_JOBS, "SELECT request FROM gpu_jobs", "DELETE FROM gpu_keys", RESULT, LOG],
}
STILL = {
    "api": [
        "UPDATE gpu_jobs SET cancel_requested = true, reason = 'mine', version = version + 1 WHERE id = '{running}'",
        "UPDATE gpu_jobs SET state = 'cancelled', finished_at = now() WHERE id = '{queued}'",
        JOB.format(state="queued", columns="", values=""),
        "UPDATE tenant_gpu_policies SET queued = 0",
        "SELECT hash FROM gpu_keys",
        "SELECT id FROM gpu_jobs FOR UPDATE",
        "SELECT pg_advisory_xact_lock(70210001)",
        "NOTIFY gpupool_queue, 'x dispatcher'",
        "SELECT lo_from_bytea(0, 'x')",
        "CREATE TEMP TABLE full_disk (a text)",
        "SET statement_timeout = 0",
    ],
    "executor": ["UPDATE gpu_accounts SET spent_micro = 0", LEDGER.format(attempt=9, kind="settle")],
    "dispatcher": [
        NO_JOBS[3],
        "DELETE FROM gpu_results",
        "LOCK TABLE gpu_jobs",
        "UPDATE gpu_accounts SET spent_micro = 0",
    ],
}
