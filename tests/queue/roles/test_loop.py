"""How often the step of a role runs."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from gpupool.queue.roles.loop import LONGEST_REST_S, repeat


def test_a_burst_of_wake_ups_is_served_by_few_steps() -> None:
    steps = asyncio.run(_steps(lasting=0.02, ends=4))
    rests = [began - ended for (_, ended), (began, _) in itertools.pairwise(steps)]
    assert rests[0] >= 0.019
    assert rests[1] >= 0.039
    assert rests[2] >= LONGEST_REST_S * 0.98


def test_a_long_step_is_followed_soon() -> None:
    (_, ended), (began, _) = asyncio.run(_steps(lasting=1.0, ends=2))
    assert LONGEST_REST_S <= began - ended < 0.9


def test_what_follows_a_wake_up_soon_is_served_by_the_same_step() -> None:
    _, (_, ended), (began, _) = asyncio.run(_steps(lasting=0.0, ends=3, delay_s=0.3))
    assert began - ended >= 0.3


@pytest.mark.parametrize("passes", range(8))
@pytest.mark.parametrize("library", [False, True])
def test_a_cancellation_that_meets_a_wake_up_ends_the_loop(passes: int, library: bool) -> None:
    """On Python 3.11 asyncio.wait_for swallows it, in the loop itself or in a library that a step calls."""

    async def run() -> None:
        wake, called = asyncio.Event(), asyncio.Event()

        async def step() -> bool:
            if library:
                await asyncio.wait_for(called.wait(), 60)
            return False

        loop = asyncio.create_task(repeat("cancelled", step, 60, wake))
        await asyncio.sleep(0.01)
        wake.set()
        called.set()
        for _ in range(passes):
            await asyncio.sleep(0)
        loop.cancel()
        done, _ = await asyncio.wait({loop}, timeout=5)
        assert done
        assert loop.cancelled()

    asyncio.run(run())


async def _steps(lasting: float, ends: int, delay_s: float = 0.0) -> list[tuple[float, float]]:
    """When steps began and ended, while something wakes their loop all the time."""
    steps: list[tuple[float, float]] = []
    wake = asyncio.Event()

    async def step() -> bool:
        began = time.monotonic()
        await asyncio.sleep(lasting)
        steps.append((began, time.monotonic()))
        return False

    loop = asyncio.create_task(repeat("burst", step, 60, wake, delay_s))
    while len(steps) < ends:  # the last wake-up is served too
        wake.set()
        await asyncio.sleep(0.001)
    loop.cancel()
    return steps
