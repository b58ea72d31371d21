"""Values that are read once for all who ask within some seconds.

This module must not know what is read.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Cache(Generic[_K, _V]):
    """The value of each key as it was read last, for some seconds; of `most` keys, with `at_once` reading."""

    def __init__(self, seconds: float, most: int = 10_000, at_once: int = 1) -> None:
        self._seconds, self._most = seconds, most
        self._values = OrderedDict[_K, tuple[float, _V]]()
        self._reading = asyncio.Semaphore(at_once)

    async def get(self, key: _K, now: float, read: Callable[[], Awaitable[_V]]) -> _V:
        """The value of `key`, read again where it is too old. What `read` raises is not remembered."""
        found = self._values.get(key)
        if found is None or abs(now - found[0]) >= self._seconds:
            async with self._reading:
                found = self._values.get(key)  # another may have read it meanwhile
                if found is None or abs(now - found[0]) >= self._seconds:
                    found = (now, await read())
                    self._values[key] = found
                    self._values.move_to_end(key)
                    if len(self._values) > self._most:
                        self._values.popitem(last=False)
        return found[1]
