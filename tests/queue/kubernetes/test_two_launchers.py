"""A launcher stands still past its lease, another one takes over, and the first one goes on where it was.

At each call of cluster or store, before and after it takes effect: what the second one did stays, nothing is
recorded twice, and nothing of the first one is left.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from gpupool.queue.roles.launcher import Launcher
from gpupool.queue.store.database import Database
from tests import sampling
from tests.queue.kubernetes.launching import (
    TTL_S,
    Fuse,
    World,
    live,
    no_leaders,
    one_process,
    one_round,
    opened,
    sound,
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
SHORT = 3


async def run(url: str, kind: type[Scenario], fuse: Fuse, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = 0.0
    async with Database.open(url, 4) as db, Database.open(url, 4) as own:
        await opened(db)
        await no_leaders(db)
        world = World(db)
        id = await world.submit()
        scenario = kind(world, id)
        async with one_process(world, own, fuse, monkeypatch, lambda: time.monotonic() + passed) as first:
            standing = await until_paused(world, first, scenario, fuse)
            second = world.launcher(db)
            if standing is not None:
                await no_leaders(db, "launcher")
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
    for at, after in sampling.drawn("launcher", cases, SHORT):
        run_with(Fuse(at, after, gate=asyncio.Event()))
