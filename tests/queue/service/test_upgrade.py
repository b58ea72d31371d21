"""The database of an earlier gpupool is taken over: its jobs, money and keys are there, and it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from gpupool.queue.records import JobState, Waiting, WaitReason
from gpupool.queue.store import jobs
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.store.migrate import migrate
from tests.queue.service.whole_database import balance, everything, goes_on, rows, run, with_budget

EARLIER = Path(__file__).with_name("earlier.sql")


@pytest.fixture
def earlier(postgres: Embedded) -> Iterator[str]:
    """A database as it was then."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE earlier")
    url = postgres.url("earlier")
    run("psql", "--quiet", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--file", str(EARLIER), url)
    yield url
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP DATABASE earlier WITH (FORCE)")


def test_an_earlier_database_keeps_its_jobs_and_money_and_goes_on(earlier: str, tmp_path: Path) -> None:
    jobs_before = {
        name: (id, JobState(state))
        for table in ("gpu_jobs", "gpu_job_history")
        for id, name, state in rows(earlier, table, "id::text, name, state")
    }
    assert set(jobs_before) == {
        *("archived", "succeeded", "failed", "running", "queued", "after it", "array 0", "array 1")
    }
    kept, (spent, held) = everything(earlier), balance(earlier)
    assert all(kept.values())
    assert held > 0
    migrate(earlier)
    assert everything(earlier) == kept

    async def scenario() -> None:
        async with Database.open(earlier) as db:
            for name, (id, state) in jobs_before.items():
                job = await jobs.job(db, id)
                assert job is not None
                assert (job.name, job.state, job.tenant) == (name, state, "vision")
                if name == "after it":
                    assert job.depends_on == (jobs_before["queued"][0],)
            waiting = [id for id, state in jobs_before.values() if not state.final]
            await goes_on(db, with_budget(tmp_path), waiting)

    asyncio.run(scenario())
    assert balance(earlier)[1] == 0
    assert balance(earlier)[0] >= spent


def test_states_and_reasons_get_their_present_names(earlier: str) -> None:
    reasons = {"queued": ("turn", "queued"), "after it": ("not_possible", "unschedulable")}
    with psycopg.connect(earlier, autocommit=True) as connection:
        connection.execute(
            "UPDATE gpu_jobs SET state = 'dispatching', started_at = NULL WHERE name = 'running'"
        )
        connection.execute("UPDATE gpu_jobs SET reason = 'not_possible: why' WHERE name = 'failed'")
        for name, (before, _) in reasons.items():
            said = f'{{"reason": "{before}", "detail": "why"}}'
            connection.execute("UPDATE gpu_jobs SET waiting = %s::jsonb WHERE name = %s", (said, name))
    states = "data ->> 'state'"
    assert ("dispatching",) in rows(earlier, "gpu_events", states)
    migrate(earlier)
    assert ("dispatching",) not in rows(earlier, "gpu_events", states)
    assert ("running", "scheduled") in rows(earlier, "gpu_jobs", "name, state")
    assert ("failed", "unschedulable: why") in rows(earlier, "gpu_jobs", "name, coalesce(reason, '')")
    waits = dict(rows(earlier, "gpu_jobs", "name, coalesce(waiting ->> 'reason', '')"))
    assert {name: waits[name] for name in reasons} == {name: after for name, (_, after) in reasons.items()}
    old = """UPDATE gpu_jobs SET waiting = '{"reason": "turn", "detail": "why"}' WHERE name = 'queued'"""
    with psycopg.connect(earlier, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.CheckViolation):  # a pod of the version before starts nothing
            connection.execute("UPDATE gpu_jobs SET state = 'dispatching' WHERE name = 'running'")
        connection.execute(old)  # but still says why jobs wait

    async def read() -> None:
        async with Database.open(earlier) as db:
            [queued] = (await jobs.jobs(db, jobs.JobFilter(name="queued"), None, 2)).jobs
            assert queued.waiting == Waiting(WaitReason.QUEUED, "why")

    asyncio.run(read())
