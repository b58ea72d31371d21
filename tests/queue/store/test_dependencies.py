"""Jobs that come after several jobs and arrays: which of them start, and which are cancelled."""

from __future__ import annotations

import asyncio
import random

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg import sql as composed

from gpupool.queue.records import Job, JobState, new_id
from gpupool.queue.store import housekeeping, several_jobs
from gpupool.queue.store import jobs as store
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.store.errors import Forbidden, UnknownDependency
from gpupool.queue.store.jobs import JobFilter
from gpupool.queue.store.migrate import FOLDER, migrate
from gpupool.queue.store.snapshot import take_snapshot
from tests.queue.acting import As
from tests.queue.conftest import Run
from tests.queue.store.samples import NOW, finished, read, running, sql, submitted


async def array(db: Database, size: int) -> tuple[str, list[Job]]:
    """An array whose jobs run."""
    group = new_id()
    return group, [await running(db, group_id=group, group_index=n, retries=0) for n in range(size)]


async def states_of(db: Database, *ids: str) -> list[str]:
    jobs = [await read(db, id) for id in ids]
    return ["blocked" if job.blocked else str(job.state) for job in jobs]


def test_a_job_waits_for_all_jobs_of_an_array(database: Run) -> None:
    async def test(db: Database) -> None:
        group, (first, second, third) = await array(db, 3)
        after = await submitted(db, depends_on=group)
        ended = await submitted(db, depends_on_ended=(group,))
        await finished(db, first, "succeeded")
        await finished(db, second, "succeeded")
        await housekeeping.archive(db, NOW.replace(year=2030), 1)  # what is in the history counts
        assert await states_of(db, after, ended) == ["blocked", "blocked"]
        await finished(db, third, "succeeded")
        assert await states_of(db, after, ended) == ["queued", "queued"]
        assert len((await take_snapshot(db, NOW, 10)).queued) == 2
        assert await states_of(db, await submitted(db, depends_on=group)) == ["queued"]

    database(test)


def test_the_first_failure_of_an_array_cancels_what_needs_its_success(database: Run) -> None:
    async def test(db: Database) -> None:
        group, (first, second) = await array(db, 2)
        after = await submitted(db, depends_on=group)
        ended = await submitted(db, depends_on_ended=(group,))
        of_after = await submitted(db, depends_on_ended=(after, group))
        await finished(db, first, "failed")
        assert await states_of(db, after, ended, of_after) == ["cancelled", "blocked", "blocked"]
        (event,) = await sql(db, "SELECT data FROM gpu_events WHERE job = %s AND type = 'cancelled'", after)
        assert event["data"]["depends_on"] == first.id
        await finished(db, second, "succeeded")
        assert await states_of(db, after, ended, of_after) == ["cancelled", "queued", "queued"]
        assert await states_of(db, await submitted(db, depends_on=group)) == ["cancelled"]
        assert (await sql(db, "SELECT queued FROM tenant_gpu_policies"))[0]["queued"] == 2

    database(test)


@pytest.mark.parametrize("part", ["api", "dispatcher"])
def test_each_part_that_ends_a_queued_job_lets_its_dependents_go(database: Run, part: str) -> None:
    """With the rights of that part alone."""

    async def test(db: Database) -> None:
        role = As(db, part)
        first = await submitted(db, deadline_at=NOW)
        after, ended = await submitted(db, depends_on=first), await submitted(db, depends_on_ended=(first,))
        last = await submitted(db, depends_on_ended=(after,))
        other = await submitted(db)
        both = await submitted(db, depends_on_ended=(first, other))
        if part == "api":
            assert await store.cancel(role, first, "ada", NOW)
        else:
            assert await housekeeping.expire_queued(role, NOW)
        assert await states_of(db, after, ended, last, both) == ["cancelled", "queued", "queued", "blocked"]
        if part == "api":
            await several_jobs.cancel_all(role, "vision", JobFilter(), "ada", NOW)
            states = await states_of(db, after, ended, last, other, both)
            assert states == ["cancelled"] * 5
            assert (await sql(db, "SELECT queued FROM tenant_gpu_policies"))[0]["queued"] == 0

    database(test)


def test_the_api_can_not_let_a_job_go_that_still_waits(database: Run) -> None:
    async def test(db: Database) -> None:
        first = await running(db)
        await submitted(db, depends_on_ended=(first.id,))
        with pytest.raises(Forbidden, match="do more than cancel it"):
            await sql(As(db, "api"), "UPDATE gpu_jobs SET blocked = false WHERE blocked")

    database(test)


def test_two_ends_at_once_are_seen_by_what_waits_for_both(database: Run) -> None:
    async def test(db: Database) -> None:
        for n in range(10):
            group, members = await array(db, 4)
            alone = await running(db)
            waiting = [
                await submitted(db, depends_on=(group, alone.id)),
                await submitted(db, depends_on=group),
            ]
            waiting.append(await submitted(db, depends_on_ended=(group, members[n % 4].id, alone.id)))
            ends = [*members, alone]
            random.shuffle(ends)
            late, *_ = await asyncio.gather(
                submitted(db, depends_on=(alone.id, group)), *(finished(db, job, "succeeded") for job in ends)
            )
            assert await states_of(db, *waiting, late) == ["queued"] * 4
            await several_jobs.cancel_all(db, "vision", JobFilter(), "ada", NOW)

    database(test)


def test_ends_and_cancellations_at_once_leave_no_job_behind(database: Run) -> None:
    """Of chains and diamonds, in any order: no job waits for what is over."""

    async def test(db: Database) -> None:
        for _ in range(8):
            group, members = await array(db, 3)
            left = await submitted(db, depends_on=group)
            right = await submitted(db, depends_on_ended=(group,))
            both = await submitted(db, depends_on=(left,), depends_on_ended=(right, group))
            end = await submitted(db, depends_on_ended=(both,))
            await asyncio.gather(
                *(finished(db, job, random.choice(["succeeded", "failed"])) for job in members),
                store.cancel(db, random.choice([left, right, both]), "ada", NOW),
                several_jobs.cancel_all(db, "vision", JobFilter(group=group), "ada", NOW),
            )
            stuck = await sql(
                db,
                """
                SELECT id FROM gpu_jobs j WHERE blocked AND NOT EXISTS (
                    SELECT FROM gpu_jobs p WHERE p.finished_at IS NULL
                        AND (p.id = ANY(j.depends_on || j.depends_on_ended)
                            OR p.group_id = ANY(j.depends_on || j.depends_on_ended)))
                """,
            )
            assert stuck == []
            await several_jobs.cancel_all(db, "vision", JobFilter(), "ada", NOW)
            assert await states_of(db, left, right, both, end) == ["cancelled"] * 4
            assert (await sql(db, "SELECT queued FROM tenant_gpu_policies"))[0]["queued"] == 0

    database(test)


def test_what_is_being_changed_is_passed_over_and_said(database: Run) -> None:
    async def test(db: Database) -> None:
        first, second = await submitted(db), await submitted(db)
        async with db.transaction() as connection:
            await connection.execute(b"SELECT FROM gpu_jobs WHERE id = %s FOR UPDATE", (first,))
            reached = await several_jobs.cancel_all(db, "vision", JobFilter(), "ada", NOW)
            assert (reached.jobs, reached.more) == (((second, JobState.CANCELLED),), True)
        reached = await several_jobs.cancel_all(db, "vision", JobFilter(), "ada", NOW)
        assert (reached.jobs, reached.more) == (((first, JobState.CANCELLED),), False)

    database(test)


@pytest.mark.parametrize("of", ["nothing", "no-uuid", "another tenant", "among others"])
def test_a_dependency_is_a_job_or_an_array_of_the_tenant(database: Run, of: str) -> None:
    async def test(db: Database) -> None:
        group, own = new_id(), await submitted(db)
        await submitted(db, tenant="speech", group_id=group, group_index=0)
        wrong = {"nothing": new_id(), "no-uuid": of}.get(of, group)
        for field in ("depends_on", "depends_on_ended"):
            with pytest.raises(UnknownDependency, match="no array; give the id of one"):
                await submitted(db, **{field: (own, wrong) if of == "among others" else (wrong,)})

    database(test)


def test_dependencies_of_before_are_kept(postgres: Embedded) -> None:
    """A database of the revision before has one dependency of a job, in both tables."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE of_before")
    url = postgres.url("of_before")
    try:
        config = Config()
        config.set_main_option("script_location", str(FOLDER))
        config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
        before = ScriptDirectory.from_config(config).get_revision("0009").down_revision
        command.upgrade(config, str(before))
        parent, child, done = new_id(), new_id(), new_id()
        insert = """
            INSERT INTO {} (id, tenant, user_name, name, state, retries, priority, level, isolation,
            gpu_count, preemptible, preempts, request, offers, lane, timeout_s, enqueued_at, plan_hash,
            depends_on, blocked, finished_at)
            VALUES (%s, 'vision', 'ada', 'x', %s, 0, 'low', 0, 'shared', 1, true, false, '{{}}', '[1]', '',
            1, now(), '', %s, %s, %s)
        """
        with psycopg.connect(url) as connection:
            for table, id, state, depends, blocked, at in (
                ("gpu_jobs", parent, "queued", None, False, None),
                ("gpu_jobs", child, "queued", parent, True, None),
                ("gpu_job_history", done, "succeeded", parent, False, NOW),
            ):
                statement = composed.SQL(insert).format(composed.Identifier(table))
                connection.execute(statement, (id, state, depends, blocked, at))
        migrate(url)
        with psycopg.connect(url) as connection:
            rows = connection.execute(
                "SELECT id::text, depends_on::text[] FROM gpu_jobs UNION ALL"
                " SELECT id::text, depends_on::text[] FROM gpu_job_history"
            ).fetchall()
            assert dict(rows) == {parent: [], child: [parent], done: [parent]}
            columns = [
                connection.execute(
                    composed.SQL("SELECT * FROM {}").format(composed.Identifier(table))
                ).description
                for table in ("gpu_jobs", "gpu_job_history")
            ]
            live, history = ([column.name for column in each or ()] for each in columns)
            assert live == history, "the archive copies whole rows"
    finally:
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute("DROP DATABASE of_before WITH (FORCE)")
