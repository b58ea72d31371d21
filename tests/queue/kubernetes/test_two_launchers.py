"""A launcher stands still past its lease, another one takes over, and the first one goes on where it was.

At each call of cluster or store, before and after it takes effect: what the second one did stays, nothing is
recorded twice, and nothing of the first one is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from gpupool.environment.plan.model import POOL_LABEL
from gpupool.queue.records import JobState
from gpupool.queue.roles.launcher import Launcher
from gpupool.queue.store.database import Database
from tests.queue.kubernetes.launching import (
    TTL_S,
    Fuse,
    World,
    live,
    no_leaders,
    one_process,
    one_round,
    opened,
    placed,
    sound,
    steps,
)
from tests.queue.kubernetes.test_launcher_crashes import (
    CancelledDispatching,
    CancelledRunning,
    FailsOnce,
    Preempted,
    Scenario,
    Succeeds,
    TooLong,
)

SCENARIOS = (Succeeds, FailsOnce, CancelledDispatching, CancelledRunning, Preempted, TooLong)


@contextlib.asynccontextmanager
async def world_of(url: str) -> AsyncIterator[tuple[World, Database]]:
    """A world without leaders, and a database of its own for the launcher that will stand still."""
    async with Database.open(url, 4) as db, Database.open(url, 4) as own:
        await no_leaders(db)
        await opened(db)
        yield World(db), own


async def run(url: str, kind: type[Scenario], fuse: Fuse, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = 0.0
    async with world_of(url) as (world, own):
        id = await world.submit()
        scenario = kind(world, id)
        async with one_process(world, own, fuse, monkeypatch, lambda: time.monotonic() + passed) as first:
            standing = await until_paused(world, first, scenario, fuse)
            second = world.launcher(world.db)
            if standing is not None:
                await no_leaders(world.db, "launcher")
                await live(world, [second], scenario.play, close=False)
                before = await world.outcomes(id)
                passed = TTL_S + 1.0
                assert fuse.gate is not None
                fuse.gate.set()
                await standing
                await live(world, [second, first], scenario.play)
                assert await world.outcomes(id) == before
            # What is on its way to the server when the process stands still can't be called back: the second
            # launcher clears it away.
            late = ("Job", "Pod") if "cluster.create" in fuse.stood else ()
            await sound(world, [id], twice=late)
            await first.close()
        assert tuple(await world.outcomes(id)) in kind.expected
        assert (await world.job(id)).state is kind.state


async def until_paused(
    world: World, launcher: Launcher, scenario: Scenario, fuse: Fuse
) -> asyncio.Task[None] | None:
    """The round in which the process stands still; None where its piece was over before."""
    paused = asyncio.create_task(fuse.paused.wait())
    while True:
        await world.dispatcher.step()
        current = asyncio.create_task(one_round(launcher))
        await asyncio.wait({current, paused}, return_when=asyncio.FIRST_COMPLETED)
        if fuse.paused.is_set():
            return current
        over = await scenario.play()
        await asyncio.sleep(0.005)
        if over and not world.leftovers():
            paused.cancel()
            return None
        world.ahead += timedelta(seconds=0 if over else 3)


@pytest.mark.parametrize("kind", SCENARIOS, ids=lambda kind: kind.__name__)
def test_a_launcher_that_stood_still_undoes_nothing(database_url, monkeypatch, kind) -> None:
    def run_with(fuse: Fuse) -> Fuse:
        try:
            asyncio.run(asyncio.wait_for(run(database_url, kind, fuse, monkeypatch), 120))
        except (Exception, asyncio.CancelledError) as error:
            error.add_note(f"call {fuse.at}, {fuse.name}: {'after' if fuse.after else 'before'}")
            raise
        return fuse

    calls = run_with(Fuse(gate=asyncio.Event())).calls
    cases = [(at, after) for at in range(1, calls + 1) for after in (False, True)]
    for at, after in cases:
        run_with(Fuse(at, after, gate=asyncio.Event()))


@contextlib.asynccontextmanager
async def standing(
    world: World, launcher: Launcher, fuse: Fuse
) -> AsyncIterator[tuple[Launcher, asyncio.Task[None]]]:
    """The launcher stands still at a call in this round; the one that leads now."""
    current = asyncio.create_task(one_round(launcher))
    await asyncio.wait_for(fuse.paused.wait(), 20)
    await no_leaders(world.db, "launcher")
    second = world.launcher(world.db)
    try:
        yield second, current
    finally:
        assert fuse.gate is not None
        fuse.gate.set()
        await current
        await second.close()
        await launcher.close()


def test_a_launcher_that_stood_still_puts_back_no_pods_of_others_that_are_gone(
    database_url, monkeypatch
) -> None:
    async def test() -> None:
        fuse = Fuse("replace_foreign", gate=asyncio.Event())
        async with world_of(database_url) as (world, own):
            (resource,) = world.present.supply.pools["training"].gpu_micro
            about = {"name": "node-1", "labels": {POOL_LABEL: "training"}}
            world.cluster.add({"kind": "Node", "metadata": about, "spec": {}})
            notebook = world.cluster.add(
                {
                    "kind": "Pod",
                    "metadata": {"name": "notebook", "namespace": "default"},
                    "spec": {
                        "nodeName": "node-1",
                        "containers": [{"name": "main", "resources": {"limits": {resource: "1"}}}],
                    },
                    "status": {"phase": "Unknown"},
                }
            )
            async with (
                one_process(world, own, fuse, monkeypatch, lambda: 0.0) as first,
                standing(world, first, fuse) as (second, current),
            ):
                await steps(second)
                assert await foreign(world.db) == [("training", 1)]
                world.cluster.edit(notebook, lambda pod: pod["status"].update(phase="Succeeded"))
                await steps(second)
                assert await foreign(world.db) == []
                fuse.gate.set()
                await current
                assert await foreign(world.db) == []

    asyncio.run(asyncio.wait_for(test(), 60))


def test_a_launcher_that_stood_still_does_not_say_again_why_an_attempt_waited(
    database_url, monkeypatch
) -> None:
    async def test() -> None:
        fuse = Fuse("record_waits", gate=asyncio.Event())
        async with world_of(database_url) as (world, own):
            id = await world.submit()
            await world.dispatcher.step()
            async with one_process(world, own, fuse, monkeypatch, lambda: 0.0) as first:
                await steps(first)
                placed(world, world.pods("Pending")[0], "node-0")
                await steps(first)
                world.ahead += timedelta(minutes=1)
                async with standing(world, first, fuse) as (second, current):
                    world.cluster.start(world.pods("Pending")[0])
                    await steps(second)
                    job = await world.job(id)
                    assert (job.state, job.waiting) == (JobState.RUNNING, None)
                    fuse.gate.set()
                    await current
                    assert (await world.job(id)).waiting is None

    asyncio.run(asyncio.wait_for(test(), 60))


def test_a_launcher_that_stood_still_ends_nothing_that_another_has_launched(
    database_url, monkeypatch
) -> None:
    """It has seen that there was nothing of the attempt, and no pool for it."""

    async def test() -> None:
        fuse = Fuse("finish", gate=asyncio.Event())
        async with world_of(database_url) as (world, own):
            before = world.present
            world.drop_pool("training")
            without = world.present
            await world.enact()
            async with one_process(world, own, fuse, monkeypatch, lambda: 0.0) as first:
                first.current = first.reconciler.current = lambda: without
                await steps(first)  # no other write of it is left that would be refused first
                id = await world.submit()
                await world.dispatcher.step()
                async with standing(world, first, fuse) as (second, current):
                    world.present = before
                    await steps(second)
                    assert world.pods("Pending")
                    fuse.gate.set()
                    await current
                    assert await world.outcomes(id) == [None]

    asyncio.run(asyncio.wait_for(test(), 60))


async def foreign(db: Database) -> list[tuple[str, int]]:
    async with db.connection() as connection:
        cursor = await connection.execute("SELECT pool, units FROM gpu_foreign_pods")
        return [(row["pool"], row["units"]) for row in await cursor.fetchall()]
