"""A role's loop: a step when something may have changed, and at the latest after its interval.

An error ends a step, never the role: it is logged, and the next step comes after a pause that grows while
errors go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Iterable

import structlog

from gpupool.queue.store.errors import StoreError

log = structlog.get_logger()

LONGEST_REST_S = 0.05
"""After a step, the next one that something wakes waits for as long as the step took, and twice as long each
time that something has woken it before that: a single change is served soon, and in a burst one step serves
many."""
LONGEST_PAUSE_S = 10.0
LATE_S = 30.0
_stepped: dict[str, float] = {}
"""Loop of this process -> when its last step ended without an error."""


def late(names: Iterable[str]) -> list[str]:
    """Those of the loops that have ended no step without an error for `LATE_S`."""
    least = time.monotonic() - LATE_S
    return [name for name in sorted(names) if _stepped.get(name, float("-inf")) < least]


async def repeat(
    name: str,
    step: Callable[[], Awaitable[bool]],
    interval_s: float | Callable[[], float],
    wake: asyncio.Event,
    delay_s: float = 0.0,
) -> None:
    """Run `step` until cancelled. It returns whether more is to be done at once. After a wake-up it waits for
    `delay_s`, so that one step serves what follows soon."""
    failures, rest, crowded = 0, 0.0, False
    while True:
        began = time.monotonic()
        more, failures = False, failures + 1
        try:
            more = await step()
            failures = 0
            _stepped[name] = time.monotonic()
        except StoreError as error:
            log.error(f"{name}.failed", error=str(error), failures=failures)
        except Exception:  # a mistake of ours must not stop the queue; it is shown whole
            log.exception(f"{name}.failed", failures=failures)
        if (task := asyncio.current_task()) and task.cancelling():
            raise asyncio.CancelledError  # libraries that wait by asyncio.wait_for may have swallowed it
        if more:
            await asyncio.sleep(0)
            continue
        ended, pause = time.monotonic(), interval_s() if callable(interval_s) else interval_s
        rest = min(LONGEST_REST_S, max(ended - began, 2 * rest if crowded else 0.0))
        if failures:  # a wake-up does not shorten the pause by much
            pause = min(LONGEST_PAUSE_S, pause * 2**failures) * random.uniform(0.5, 1)  # noqa: S311
            rest = min(pause, 0.5)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await wake.wait()
        left = ended + rest - time.monotonic()
        crowded = left > 0
        await asyncio.sleep(max(delay_s, left))
        wake.clear()
