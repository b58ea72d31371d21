"""A concurrency limit for each of many keys, such as callers. Those above the limit of their key wait, first
in, first out, so that one caller's many requests delay no other's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)


class ConcurrencyLimits(Generic[_K]):
    """`at_once` holders of each key. Keys without holders are forgotten."""

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once
        self._taken = dict[_K, tuple[asyncio.Semaphore, int]]()

    @asynccontextmanager
    async def of(self, key: _K) -> AsyncIterator[None]:
        """Hold a slot of `key`."""
        await self.take(key)
        try:
            yield
        finally:
            self.give(key)

    async def take(self, key: _K) -> None:
        """Wait for a slot, to be given back by `give`."""
        semaphore, users = self._taken.get(key) or (asyncio.Semaphore(self._at_once), 0)
        self._taken[key] = semaphore, users + 1
        try:
            await semaphore.acquire()
        except asyncio.CancelledError:
            self._leave(key)
            raise

    def give(self, key: _K) -> None:
        """Give a slot back."""
        self._taken[key][0].release()
        self._leave(key)

    def _leave(self, key: _K) -> None:
        semaphore, users = self._taken[key]
        if users == 1:
            del self._taken[key]
        else:
            self._taken[key] = semaphore, users - 1
