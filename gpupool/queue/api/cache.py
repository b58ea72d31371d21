"""Values that are read once for all who ask within some seconds."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from gpupool.queue.api.concurrency import ConcurrencyLimits

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Cache(Generic[_K, _V]):
    """The value of each key as it was read last, for some seconds; of `most` keys, with `at_once` reading,
    each by one of those who ask for it."""

    def __init__(self, seconds: float, most: int = 10_000, at_once: int = 1) -> None:
        self._seconds, self._most = seconds, most
        self._values = OrderedDict[_K, tuple[float, _V]]()
        self._reading = asyncio.Semaphore(at_once)
        self._limits = ConcurrencyLimits[_K]()

    async def get(self, key: _K, now: float, read: Callable[[], Awaitable[_V]]) -> _V:
        """The value of `key`, read again where it is too old. What `read` raises is not remembered."""
        found = self._fresh(key, now)
        if found is None:
            async with self._limits.of(key), self._reading:
                found = self._fresh(key, now) or self._keep(key, (now, await read()))
        return found[1]

    def _fresh(self, key: _K, now: float) -> tuple[float, _V] | None:
        found = self._values.get(key)
        return None if found is None or abs(now - found[0]) >= self._seconds else found

    def _keep(self, key: _K, found: tuple[float, _V]) -> tuple[float, _V]:
        self._values[key] = found
        self._values.move_to_end(key)
        if len(self._values) > self._most:
            self._values.popitem(last=False)
        return found
