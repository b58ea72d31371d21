"""An attempt ends while others ask for its end: one end, with one reason."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from gpupool.queue.records import JobState
from gpupool.queue.store import attempts, housekeeping, jobs, outbox
from gpupool.queue.store.database import Database
from tests.examples import SEED
from tests.queue.conftest import Run
from tests.queue.roles.running import Queue, opened
from tests.queue.store.samples import NOW, finished, running

KINDS = ("succeeded", "failed", "timeout", "disrupted", "preempted", "cancelled")
ASKED = ("nobody", "cancelled", "preempted", "idle", "cancelled and preempted", "cancelled and idle")
CASES = [(kind, asked) for kind in KINDS for asked in ASKED if kind != "cancelled" or "cancelled" in asked]


async def _ask(db: Database, id: str, asked: str) -> None:
    preempt = {"preempted": '{"reason": "for another"}', "idle": '{"reason": "idle", "outcome": "failed"}'}
    for name, text in preempt.items():
        if name in asked:
            await _run(db, "UPDATE gpu_jobs SET preempt_reason = %s WHERE id = %s", text, id)
    if "cancelled" in asked:
        await jobs.cancel(db, id, "ada", NOW)


async def _run(db: Database, statement: str, *values: Any) -> None:
    async with db.connection() as connection:
        await connection.execute(statement.encode(), values)


def expected(kind: str, asked: str) -> tuple[JobState, str, str | None]:
    """State, outcome and reason."""
    if kind == "succeeded":
        return JobState.SUCCEEDED, "succeeded", None
    if "cancelled" in asked:
        return JobState.CANCELLED, "cancelled", "cancelled by ada"
    if asked == "idle":
        return JobState.FAILED, "failed", "idle"
    final = JobState.QUEUED if kind in ("disrupted", "preempted") else JobState.FAILED
    return final, kind, "said"


def test_an_end_has_one_reason_whoever_asked_for_it(database: Run) -> None:
    async def test(db: Database) -> None:
        for kind, asked in CASES:
            job = await running(db, retries=0)
            await _ask(db, job.id, asked)
            reason = None if kind == "succeeded" else "said"
            done = await finished(db, job, kind, reason=reason, exit_code=3)
            assert done is not None
            (attempt,) = await attempts.of_job(db, job.id)
            event = (await outbox.of_job(db, job.id))[-1]
            wanted = expected(kind, asked)
            assert (done.state, attempt.outcome, attempt.reason) == wanted, (kind, asked)
            assert (done.reason, event.data.get("reason")) == (wanted[2], wanted[2])
            assert event.data["outcome"] == wanted[1]
            assert attempt.exit_code == 3
            if not done.state.final:
                await jobs.cancel(db, job.id, "bob", NOW)

    database(test)


def test_a_lost_lease_of_a_cancelled_job_is_its_cancellation(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        await jobs.cancel(db, job.id, "ada", NOW)
        over = await housekeeping.leases(db)
        (done,) = await housekeeping.expire_leases(db, over, (1, 1), NOW)
        assert (done.state, done.reason) == (JobState.CANCELLED, "cancelled by ada")

    database(test)


@pytest.mark.parametrize("number", range(40))
def test_a_success_that_meets_something_else(database: Run, number: int) -> None:
    """Requests to stop come at any moment of the last milliseconds of commands that end with 0."""

    async def test(db: Database) -> None:
        await opened(db)
        queue, chance = Queue(db), random.Random(f"{SEED} {number}")
        command = {"container_image": "a:1", "container_command": ["sleep", "0.3"]}
        ids = [await queue.submit(request=command) for _ in range(2)]

        async def ask(id: str) -> None:
            while (await queue.job(id)).state in (JobState.QUEUED, JobState.SCHEDULED):
                await asyncio.sleep(0.01)
            await asyncio.sleep(chance.uniform(0.2, 0.45))
            await jobs.cancel(db, id, "ada", queue.now())

        asking = [asyncio.create_task(ask(id)) for id in ids]
        for id in ids:
            job = await queue.ended(id, 120)
            tried = await attempts.of_job(db, id)
            last = (job.state.value, job.reason, tried[-1].outcome, tried[-1].reason)
            assert last in {
                ("succeeded", None, "succeeded", None),
                ("cancelled", "cancelled by ada", "cancelled", "cancelled by ada"),
            }
        await asyncio.gather(*asking)

    database(test)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE gpu_jobs SET reason = 'cancelled by ada'",
        "UPDATE gpu_attempts SET reason = 'cancelled by ada'",
    ],
)
def test_no_statement_gives_a_success_a_reason(database: Run, change: str) -> None:
    async def test(db: Database) -> None:
        await finished(db, await running(db), "succeeded")
        with pytest.raises(Exception, match="success_has_no_reason"):
            await _run(db, change)

    database(test)
