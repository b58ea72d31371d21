"""Each part's role has what its queries need and no more; a stolen account of one part can't do another's work."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import errors, sql
from structlog.testing import capture_logs

from gpupool.queue.store import attempts, jobs, keys, rights
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import ACCOUNT, Embedded
from gpupool.queue.store.errors import Forbidden
from gpupool.queue.store.migrate import migrate
from gpupool.queue.store.rights import Right
from tests.queue.acting import As
from tests.queue.store.query_users import MODULES, QUERIES, QUEUE, queries_of
from tests.queue.store.samples import NOW, dispatched, finished, leading, new, running, submitted

PARTS = tuple(MODULES)
READ_AT_START = "gpu_schema_version"
REFUSED = (errors.InsufficientPrivilege, errors.CheckViolation, errors.InvalidGrantOperation)


def statements(part: str) -> dict[str, str]:
    """The queries of a part, without values, so that PostgreSQL checks its rights for them and runs nothing."""
    texts = {name: (QUEUE / "store" / "queries" / f"{name}.sql").read_text() for name in queries_of(part)}
    bare = {name: re.sub(r"%\(\w+\)s", "NULL", text) for name, text in texts.items()}
    return {name: text if "LOCK TABLE" in text else f"EXPLAIN {text}" for name, text in bare.items()}


def refused(connection: psycopg.Connection[Any], role: str, given: Mapping[str, str]) -> str | None:
    """The first of these statements that the role may not run, with the reason."""
    for name, statement in given.items():
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
                connection.execute(statement.encode())
        except errors.InsufficientPrivilege as error:
            return f"{name}: {error.diag.message_primary}"
    return None


def change(connection: psycopg.Connection[Any], right: Right, form: str) -> None:
    column = sql.SQL("({})").format(sql.Identifier(right.column)) if right.column else sql.SQL("")
    names = {"table": sql.Identifier(right.table), "role": sql.Identifier(right.role)}
    connection.execute(sql.SQL(form).format(verb=sql.SQL(right.verb.upper()), column=column, **names))  # type: ignore[arg-type]


def test_every_query_is_run_by_a_part() -> None:
    assert set().union(*map(queries_of, PARTS)) == QUERIES


@pytest.mark.parametrize("part", PARTS)
def test_a_role_has_what_its_queries_need_and_no_more(database_url: str, part: str) -> None:
    role, given = rights.role_of(part), statements(part)
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert refused(connection, role, given) is None
        own = {right for right in rights.present(connection) if right.role == role}
        assert own
        needless = []
        for right in sorted(own):
            using = {name: text for name, text in given.items() if re.search(rf"\b{right.table}\b", text)}
            change(connection, right, "REVOKE {verb} {column} ON {table} FROM {role}")
            if right.table != READ_AT_START and refused(connection, role, using) is None:
                needless.append(right)
            change(connection, right, "GRANT {verb} {column} ON {table} TO {role}")
        assert needless == []


class Stolen(NamedTuple):
    """A database with work in it."""

    url: str
    login: Callable[[str, str], str]
    names: dict[str, str]
    """What attempts name: ids of jobs."""


@pytest.fixture(scope="module")
def stolen(postgres: Embedded, login: Callable[[str, str], str]) -> Iterator[Stolen]:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE stolen TEMPLATE migrated")

    async def work() -> dict[str, str]:
        async with Database.open(postgres.url("stolen")) as db:
            ended = await running(db)
            await finished(db, ended, "succeeded")
            runs = await running(db)
            await leading(db)
            queued = await submitted(db)
            dependent = await submitted(db, depends_on=runs.id)
            key, _ = await keys.create(db, "first", ["*"], ["admin"], None)
            names = {"queued": queued, "dependent": dependent, "running": runs.id, "ended": ended.id}
            return {**names, "key": key.id}

    names = asyncio.run(work())
    yield Stolen(postgres.url("stolen"), login, names)
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP DATABASE stolen WITH (FORCE)")


JOB = """INSERT INTO gpu_jobs (id, tenant, user_name, name, state, retries, priority, level, isolation, gpu_count,
    preemptible, preempts, request, offers, lane, timeout_s, plan_hash, enqueued_at{columns})
SELECT gen_random_uuid(), tenant, user_name, name, '{state}', retries, priority, level, isolation, gpu_count,
    preemptible, preempts, request, offers, lane, timeout_s, plan_hash, enqueued_at{values}
FROM gpu_jobs WHERE id = '{{queued}}'"""
PLACE = "pool, resource, capacity_type, placement, gpu_key, gpu_micro, rate_micro, run_limit_s"
HELD = f", attempt, decided_at, lease_until, hold_micro, {PLACE}"
PLACED = ", 't4', 'nvidia.com/gpu', 'spot', '[[0, 1]]', 't4', 1, 0, 60"
DISPATCHED = """UPDATE gpu_jobs SET state = 'dispatching', version = version + 1, decided_at = now(), lease_until = now(),
    hold_micro = 0, pool = 't4', resource = 'nvidia.com/gpu', capacity_type = 'spot', placement = '[[0, 1]]',
    gpu_key = 't4', gpu_micro = 1, rate_micro = 0, run_limit_s = 60{more} WHERE id = '{{queued}}'"""
EVENT = """INSERT INTO gpu_events (job, seq, type, tenant, at, data{columns})
    VALUES ('{{{job}}}', {seq}, '{type}', 'vision', now(), '{{{{}}}}'{values})"""
LEADS = "INSERT INTO gpu_leader VALUES ('{role}', 'thief', 1, '9999-01-01') ON CONFLICT (role) DO UPDATE SET \
holder = 'thief', epoch = gpu_leader.epoch + 1"
KEY = "INSERT INTO gpu_keys (id, hash, name, tenants, scopes, created_at) VALUES ('x', sha256('x'), 'x', '{{*}}', \
'{{admin}}', now())"
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
        JOB.format(state="running", columns=HELD + ", started_at", values=f", 1, now(), now(), 0{PLACED}, now()"),
        JOB.format(state="dispatching", columns=HELD, values=f", 1, now(), now(), 0{PLACED}"),
        JOB.format(state="dispatching", columns="", values=""),
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
        "UPDATE gpu_jobs SET state = 'dispatching' WHERE id = '{running}'",
        "UPDATE gpu_jobs SET state = 'failed' WHERE id = '{ended}'",
        "UPDATE gpu_jobs SET state = 'queued', finished_at = NULL WHERE id = '{ended}'",
        "UPDATE gpu_jobs SET finished_at = now() WHERE id = '{ended}'",
        "UPDATE gpu_jobs SET reason = 'forged' WHERE id = '{ended}'",
        "UPDATE gpu_jobs SET cancel_requested = true WHERE id = '{queued}'",
        "UPDATE gpu_jobs SET blocked = false WHERE id = '{dependent}'",
        "UPDATE gpu_jobs SET not_before = '9999-01-01' WHERE id = '{queued}'",
        "UPDATE gpu_jobs SET waiting = '{{\"reason\": \"x\", \"detail\": \"y\"}}' WHERE id = '{queued}'",
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
        *NO_JOBS,
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
        "UPDATE gpu_jobs SET state = 'dispatching', started_at = NULL WHERE id = '{running}'",
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
        "DELETE FROM gpu_logs",
        "SELECT text FROM gpu_alerts",
        "UPDATE gpu_callbacks SET url = 'http://evil.example'",
        "SET ROLE gpupool_api",
        "SET ROLE gpupool_dispatcher",
    ],
    "keys": [*ANYBODY, *NO_JOBS, "SELECT request FROM gpu_jobs", "DELETE FROM gpu_keys", RESULT, LOG],
}


@pytest.mark.parametrize("part", ATTEMPTS)
def test_a_stolen_account_does_its_own_work_alone(stolen: Stolen, part: str) -> None:
    """Every attempt fails for want of rights, or by a CHECK: not because it is written wrongly."""
    done, others = [], []
    with psycopg.connect(stolen.url), psycopg.connect(stolen.login(stolen.url, part)) as thief:
        for attempt in ATTEMPTS[part]:
            try:
                with thief.transaction(force_rollback=True):
                    thief.execute(attempt.format(**stolen.names).encode())
                    done.append(attempt)
            except REFUSED:
                continue
            except psycopg.Error as error:
                others.append((attempt, error))
    assert (done, others) == ([], [])


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
    "dispatcher": ["DELETE FROM gpu_results", "LOCK TABLE gpu_jobs", "UPDATE gpu_accounts SET spent_micro = 0"],
}


@pytest.mark.parametrize("part", STILL)
def test_what_a_stolen_account_still_can(stolen: Stolen, part: str) -> None:
    """docs/queue.md says so."""
    with psycopg.connect(stolen.login(stolen.url, part)) as thief:
        for statement in STILL[part]:
            with thief.transaction(force_rollback=True):
                thief.execute(statement.format(**stolen.names).encode())


def test_a_jobs_way_through_the_roles(database: Any) -> None:
    """Also what EXPLAIN does not run: triggers, and rules for rows."""

    async def test(db: Database) -> None:
        api, deciding, executor = (As(db, part) for part in ("api", "dispatcher", "executor"))
        request = {"callback_url": "http://example/done", "target_url": "http://example"}
        first, second = await submitted(api, request=request), await submitted(api)
        after = await submitted(api, depends_on=first)
        refused_too = await submitted(api, depends_on=second)
        await jobs.reprioritise(api, second, "high", 2)
        assert sorted(await dispatched(deciding)) == sorted([first, second])
        for job in await attempts.take(executor, "executor", 10, 30, NOW):
            assert await attempts.started(executor, job.id, 1, NOW)
            await attempts.append_log(executor, job.id, 1, ["line"])
        ended = await jobs.job(api, first)
        assert ended is not None
        assert (await finished(executor, ended, "succeeded")) is not None
        assert (await jobs.cancel(api, second, "ada", NOW)).cancel_requested  # type: ignore[union-attr]
        stopped = await jobs.job(api, second)
        assert stopped is not None
        await finished(executor, stopped, "cancelled")
        states = {id: (await jobs.job(api, id)).state for id in (first, second, after, refused_too)}  # type: ignore[union-attr]
        assert list(states.values()) == ["succeeded", "cancelled", "queued", "cancelled"]
        late = await submitted(api, depends_on=second, request=request)
        async with db.connection() as connection:
            rows = await (await connection.execute("SELECT job::text AS job FROM gpu_callbacks")).fetchall()
        assert {row["job"] for row in rows} == {first, late}
        await jobs.submit(api, [new() for _ in range(50)], jobs.Key("k", b"1"), now=NOW)

    database(test)


@pytest.fixture
def own_server() -> Iterator[Embedded]:
    """A server without the queue's roles, with two owners: one may make roles."""
    server = Embedded(Path(tempfile.mkdtemp(prefix="gpupool-rights-")))
    try:
        with psycopg.connect(server.start(), autocommit=True) as connection:
            for name, more in (("plain", ""), ("maker", " CREATEROLE")):
                connection.execute(f"CREATE ROLE {name} LOGIN{more}".encode())
                connection.execute(f"CREATE DATABASE {name} OWNER {name}".encode())
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


def test_an_owner_that_may_make_no_roles_goes_on_and_says_what_to_run(own_server: Embedded) -> None:
    administrator = own_server.url("plain")
    url = administrator.replace(f"//{ACCOUNT}@", "//plain@")
    with capture_logs() as logs:
        migrate(url)
        assert rights.role_for(url, ["api"]) is None
    missing, not_taken = logs
    assert (missing["event"], not_taken["event"]) == ("database.roles_missing", "database.role_not_taken")

    async def submit(url: str, role: str | None) -> None:
        async with Database.open(url, role=role) as db:
            assert (await jobs.submit(db, [new()])).ids

    asyncio.run(submit(url, None))
    with psycopg.connect(administrator, autocommit=True) as connection:
        for statement in missing["an_administrator_runs"]:
            connection.execute(statement)
        connection.execute("CREATE ROLE pod LOGIN IN ROLE gpupool_api")
        connection.execute("CREATE ROLE stranger LOGIN")
        connection.execute("GRANT UPDATE ON gpu_jobs TO gpupool_api")  # taken back
    with capture_logs() as logs:
        migrate(url)
        assert rights.role_for(url, ["relay", "janitor"]) == "gpupool_dispatcher"
        assert rights.role_for(url, ["api", "dispatcher"]) is None
    assert logs == []
    with psycopg.connect(administrator) as connection:
        there = {name for (name,) in connection.execute("SELECT relname FROM pg_class")}
        assert rights.present(connection) == {right for right in rights.wanted() if right.table in there}
    pod = administrator.replace(f"//{ACCOUNT}@", "//pod@")
    migrate(pod)
    asyncio.run(submit(pod, rights.role_for(pod, ["api"])))
    with pytest.raises(Forbidden, match="the database refuses"):
        asyncio.run(submit(url, "gpupool_executor"))
    with pytest.raises(Forbidden, match="the database refuses"):
        migrate(administrator.replace(f"//{ACCOUNT}@", "//stranger@"))


def test_an_owner_that_may_make_roles_makes_them(own_server: Embedded) -> None:
    url = own_server.url("maker").replace(f"//{ACCOUNT}@", "//maker@")
    with capture_logs() as logs:
        migrate(url)
        assert [rights.role_for(url, [part]) for part in ("api", "executor")] == [
            "gpupool_api",
            "gpupool_executor",
        ]
    assert logs == []
