"""A role's loop: a step when something may have changed, and at the latest after its interval.

An error ends a step, never the role: it is logged, and the next step comes after a pause that grows while
errors go on. This module must not know what a step does.
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

REST = 1.0
"""After a step, the next one that something wakes waits so many times as long as the step took: in a burst
one step serves many changes, and steps take half of the time at most."""
LONGEST_REST_S = 0.05
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
    interval_s: float,
    wake: asyncio.Event,
    delay_s: float = 0.0,
) -> None:
    """Run `step` until cancelled. It returns whether more is to be done at once. After a wake-up it waits for
    `delay_s`, so that one step serves what follows soon."""
    failures = 0
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
        took = time.monotonic() - began
        if more:
            await asyncio.sleep(0)
            continue
        pause = interval_s
        if failures:
            pause = min(LONGEST_PAUSE_S, interval_s * 2**failures) * random.uniform(0.5, 1)  # noqa: S311
        # A wake-up shortens neither the rest nor, by much, the pause after an error.
        resting = min(pause, 0.5) if failures else min(LONGEST_REST_S, REST * took)
        rested = time.monotonic() + resting
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(wake.wait(), pause)
        await asyncio.sleep(max(delay_s, rested - time.monotonic()))
        wake.clear()
