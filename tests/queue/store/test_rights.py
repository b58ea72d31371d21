"""Each part's role has what its queries need and no more; a compromised one can't do another part's work."""

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

from gpupool.queue.store import attempts, jobs, keys, logs, rights
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import ROLE, Embedded
from gpupool.queue.store.errors import Forbidden
from gpupool.queue.store.migrate import migrate
from gpupool.queue.store.rights import DatabaseRight
from tests.queue.acting import As
from tests.queue.store.compromised_accounts import ATTEMPTS, STILL
from tests.queue.store.query_users import MODULES, QUERIES, QUEUE, queries_of
from tests.queue.store.samples import NOW, dispatched, finished, leading, new, running, submitted

PARTS = tuple(MODULES)
READ_AT_START = "gpu_schema_version"
REFUSED = (errors.InsufficientPrivilege, errors.CheckViolation, errors.InvalidGrantOperation)


def statements(part: str) -> dict[str, str]:
    """The queries of a part without values: PostgreSQL checks rights for them and runs nothing."""
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


def change(connection: psycopg.Connection[Any], right: DatabaseRight, form: str) -> None:
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


class Compromised(NamedTuple):
    """A database with work in it."""

    url: str
    login: Callable[[str, str], str]
    names: dict[str, str]
    """What attempts name: ids of jobs."""


@pytest.fixture(scope="module")
def compromised(postgres: Embedded, login: Callable[[str, str], str]) -> Iterator[Compromised]:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE compromised TEMPLATE migrated")

    async def work() -> dict[str, str]:
        async with Database.open(postgres.url("compromised")) as db:
            ended = await running(db)
            await logs.append(db, ended.id, 1, ["line"])
            await finished(db, ended, "succeeded")
            runs = await running(db)
            await leading(db)
            queued = await submitted(db)
            dependent = await submitted(db, depends_on=runs.id)
            key, _ = await keys.create(db, "first", ["*"], ["admin"], None)
            names = {"queued": queued, "dependent": dependent, "running": runs.id, "ended": ended.id}
            return {**names, "key": key.id}

    names = asyncio.run(work())
    yield Compromised(postgres.url("compromised"), login, names)
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP DATABASE compromised WITH (FORCE)")


@pytest.mark.parametrize("part", ATTEMPTS)
def test_a_compromised_account_does_its_own_work_alone(compromised: Compromised, part: str) -> None:
    """Every attempt fails for want of rights, or by a CHECK: not because it is written wrongly."""
    done, others = [], []
    with psycopg.connect(compromised.url), psycopg.connect(compromised.login(compromised.url, part)) as thief:
        for attempt in ATTEMPTS[part]:
            try:
                with thief.transaction(force_rollback=True):
                    thief.execute(attempt.format(**compromised.names).encode())
                    done.append(attempt)
            except REFUSED:
                continue
            except psycopg.Error as error:
                others.append((attempt, error))
    assert (done, others) == ([], [])


@pytest.mark.parametrize("part", STILL)
def test_what_a_compromised_account_still_can(compromised: Compromised, part: str) -> None:
    """docs/operate-queue.md says so."""
    with psycopg.connect(compromised.login(compromised.url, part)) as thief:
        for statement in STILL[part]:
            with thief.transaction(force_rollback=True):
                thief.execute(statement.format(**compromised.names).encode())


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
            assert await attempts.record_start(executor, job.id, 1, NOW)
            await logs.append(executor, job.id, 1, ["line"])
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
    url = administrator.replace(f"//{ROLE}@", "//plain@")
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
        connection.execute("CREATE ROLE outsider LOGIN")
        connection.execute("GRANT UPDATE ON gpu_jobs TO gpupool_api")  # taken back
    with capture_logs() as logs:
        migrate(url)
        assert rights.role_for(url, ["relay", "janitor"]) == "gpupool_dispatcher"
        assert rights.role_for(url, ["api", "dispatcher"]) is None
    assert logs == []
    with psycopg.connect(administrator) as connection:
        there = {name for (name,) in connection.execute("SELECT relname FROM pg_class")}
        assert rights.present(connection) == {right for right in rights.wanted() if right.table in there}
    pod = administrator.replace(f"//{ROLE}@", "//pod@")
    migrate(pod)
    asyncio.run(submit(pod, rights.role_for(pod, ["api"])))
    with pytest.raises(Forbidden, match="the database refuses"):
        asyncio.run(submit(url, "gpupool_executor"))
    with pytest.raises(Forbidden, match="the database refuses"):
        migrate(administrator.replace(f"//{ROLE}@", "//outsider@"))


def test_an_owner_that_may_make_roles_makes_them(own_server: Embedded) -> None:
    url = own_server.url("maker").replace(f"//{ROLE}@", "//maker@")
    with capture_logs() as logs:
        migrate(url)
        assert [rights.role_for(url, [part]) for part in ("api", "executor")] == [
            "gpupool_api",
            "gpupool_executor",
        ]
    assert logs == []
