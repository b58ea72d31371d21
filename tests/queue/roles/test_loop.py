"""How often the step of a role runs."""

from __future__ import annotations

import asyncio
import time

from gpupool.queue.roles.loop import LEAST_S, repeat


def test_a_burst_of_wake_ups_is_served_by_few_steps() -> None:
    async def run() -> tuple[int, float]:
        steps, wake = 0, asyncio.Event()

        async def step() -> bool:
            nonlocal steps
            steps += 1
            return False

        began = time.monotonic()
        loop = asyncio.create_task(repeat("burst", step, 60, wake))
        for _ in range(200):
            wake.set()
            await asyncio.sleep(0.001)
        wake.set()
        while steps < 3:  # the last one too
            await asyncio.sleep(0.001)
        loop.cancel()
        return steps, time.monotonic() - began

    steps, seconds = asyncio.run(run())
    assert 3 <= steps <= seconds / LEAST_S + 2
