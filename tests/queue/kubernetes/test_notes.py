"""What the launcher notes of an attempt: written together, and only what still holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gpupool.queue.records import JobState, Waiting, WaitReason
from gpupool.queue.roles.attempt import Attempt
from gpupool.queue.roles.attempt_notes import Notes
from gpupool.queue.store import launches
from gpupool.queue.store.attempts import AttemptStart
from tests.queue.kubernetes.launching import World, opened

NODE = Waiting(WaitReason.NODE, "no node for its pod")
Test = Callable[[World, Notes, Attempt, Callable[[], Awaitable[None]]], Awaitable[None]]


@pytest.fixture
def noting(database) -> Callable[..., None]:
    """Runs a test with an attempt that is dispatched, notes under an epoch, and what waits for them."""

    def run(test: Test, late: int = 0) -> None:
        async def begun(db) -> None:
            await opened(db)
            world = World(db)
            id = await world.submit()
            await world.dispatcher.step()
            epoch = await world.launcher(db).leadership.seek()
            assert epoch is not None
            await launches.take(db, epoch, 1)
            tasks: list[asyncio.Task[Any]] = []
            notes = Notes(
                db, world.now, lambda: epoch - late, None, lambda one: tasks.append(asyncio.create_task(one))
            )

            async def written() -> None:
                await asyncio.gather(*tasks)

            await test(world, notes, Attempt(await world.job(id)), written)

        database(begun)

    return run


def test_a_reason_that_is_gone_before_it_is_written_never_shows(noting) -> None:
    async def test(world: World, notes: Notes, attempt: Attempt, written) -> None:
        notes.waits(attempt, NODE)
        notes.started(attempt, AttemptStart(attempt.job.id, 1, world.now(), "node-0"))
        notes.waits(attempt, None)
        await written()
        job = await world.job(attempt.job.id)
        assert (job.state, job.waiting, attempt.running) == (JobState.RUNNING, None, True)

    noting(test)


def test_a_reason_is_written_once_and_taken_back(noting) -> None:
    async def test(world: World, notes: Notes, attempt: Attempt, written) -> None:
        notes.waits(attempt, NODE)
        await written()
        first = await world.job(attempt.job.id)
        assert first.waiting == attempt.waiting == NODE
        notes.waits(attempt, NODE)
        await written()
        assert (await world.job(attempt.job.id)).version == first.version
        notes.waits(attempt, None)
        await written()
        assert (await world.job(attempt.job.id)).waiting is None

    noting(test)


def test_a_former_leader_writes_no_reason_and_looks_again(noting) -> None:
    async def test(world: World, notes: Notes, attempt: Attempt, written) -> None:
        notes.waits(attempt, NODE)
        await written()
        assert (await world.job(attempt.job.id)).waiting is None
        assert attempt.waiting is None
        assert attempt.due is not None

    noting(test, late=1)
