"""For each of many keys so much at a time: the others of that key wait, in the order in which they came.

So that one who asks for much waits for itself, and not everybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)


class Turns(Generic[_K]):
    """`at_once` of each key at a time. Keys without a turn are forgotten."""

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once
        self._taken = dict[_K, tuple[asyncio.Semaphore, int]]()

    @asynccontextmanager
    async def of(self, key: _K) -> AsyncIterator[None]:
        """One turn of `key`."""
        await self.take(key)
        try:
            yield
        finally:
            self.give(key)

    async def take(self, key: _K) -> None:
        """Wait for a turn, to be given back by `give`."""
        semaphore, users = self._taken.get(key) or (asyncio.Semaphore(self._at_once), 0)
        self._taken[key] = semaphore, users + 1
        try:
            await semaphore.acquire()
        except asyncio.CancelledError:
            self._leave(key)
            raise

    def give(self, key: _K) -> None:
        """End a turn."""
        self._taken[key][0].release()
        self._leave(key)

    def _leave(self, key: _K) -> None:
        semaphore, users = self._taken[key]
        if users == 1:
            del self._taken[key]
        else:
            self._taken[key] = semaphore, users - 1
