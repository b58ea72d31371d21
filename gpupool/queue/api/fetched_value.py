"""A value of another service, fetched in the background: one fetch at a time, within a time limit, and less
often while it fails.

Who can do with the value that is known never waits for a fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from gpupool.queue.api.credentials import Unverifiable

log = structlog.get_logger()

_V = TypeVar("_V")
LIMIT_S = 10.0
"""For one fetch in all, however slowly its answer comes."""
WAIT_S = 3.0
MOST_WAITING = 64
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 300.0


class Renewed(Generic[_V]):
    """The value as it was fetched last. `pause_s`: between two fetches, where the first has succeeded."""

    def __init__(self, fetch: Callable[[], Awaitable[_V]], pause_s: float) -> None:
        self._fetch, self._pause_s = fetch, pause_s
        self.value: _V | None = None
        self.fetched = float("-inf")
        """When, by the clock of those who call."""
        self._next = float("-inf")
        self._failures = self._waiting = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def current(self) -> bool:
        """Whether the latest fetch has ended, with a value."""
        return self.value is not None and self._task is None and not self._failures

    def renew(self, now: float) -> None:
        """Fetch the value again unless that is being done or was done a short while ago."""
        if self._task is None and now >= self._next:
            self._task = asyncio.create_task(self._run(now))

    async def wait(self, now: float) -> None:
        """The same, and wait a few seconds for the fetch that is under way. Raises Unverifiable where many
        wait already."""
        self.renew(now)
        if self._task is None:
            return
        if self._waiting >= MOST_WAITING:
            raise Unverifiable("the credential can't be verified now: too many are being verified")
        self._waiting += 1
        try:
            await asyncio.wait({self._task}, timeout=WAIT_S)
        finally:
            self._waiting -= 1

    async def _run(self, now: float) -> None:
        self._failures += 1
        try:
            async with asyncio.timeout(LIMIT_S):
                self.value = await self._fetch()
            self.fetched, self._failures = now, 0
        except (Unverifiable, TimeoutError) as error:
            log.warning("credentials.not_fetched", error=str(error) or "it takes too long")
        finally:
            backed_off = min(_SHORTEST_PAUSE_S * 2 ** min(self._failures, 10) / 2, _LONGEST_PAUSE_S)
            self._next = now + (backed_off if self._failures else self._pause_s)
            self._task = None
