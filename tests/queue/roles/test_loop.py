"""How often the step of a role runs."""

from __future__ import annotations

import asyncio
import itertools
import time

from gpupool.queue.roles.loop import LONGEST_REST_S, repeat


def test_a_burst_of_wake_ups_is_served_by_few_steps() -> None:
    steps = asyncio.run(_steps(lasting=0.02, rest=1.0, ends=4))
    starts = [began for began, _ in steps]
    assert all(later - began >= 0.039 for began, later in itertools.pairwise(starts))


def test_a_long_step_is_followed_soon() -> None:
    (_, ended), (began, _) = asyncio.run(_steps(lasting=0.05, rest=1000.0, ends=2))
    assert LONGEST_REST_S <= began - ended < 10 * LONGEST_REST_S


async def _steps(lasting: float, rest: float, ends: int) -> list[tuple[float, float]]:
    """When steps began and ended, while something wakes their loop all the time."""
    steps: list[tuple[float, float]] = []
    wake = asyncio.Event()

    async def step() -> bool:
        began = time.monotonic()
        await asyncio.sleep(lasting)
        steps.append((began, time.monotonic()))
        return False

    loop = asyncio.create_task(repeat("burst", step, 60, wake, rest))
    while len(steps) < ends:  # the last wake-up is served too
        wake.set()
        await asyncio.sleep(0.001)
    loop.cancel()
    return steps
