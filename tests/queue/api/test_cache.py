"""The cache that many askers share: one reads, all get it, and what fails is asked again."""

from __future__ import annotations

import asyncio

import pytest

from gpupool.queue.api.cache import Cache


class Source:
    """Counts how often it is read."""

    def __init__(self) -> None:
        self.read = 0

    async def __call__(self) -> int:
        await asyncio.sleep(0)
        self.read += 1
        return self.read


def test_those_who_ask_at_once_are_answered_by_one_reading() -> None:
    async def steps() -> None:
        cache, source = Cache[str, int](seconds=5), Source()
        assert await asyncio.gather(*(cache.get("a", 100.0, source) for _ in range(5))) == [1] * 5
        assert await cache.get("a", 104.9, source) == 1
        assert await cache.get("b", 100.0, source) == 2
        assert await cache.get("a", 105.0, source) == 3
        assert await cache.get("a", 99.0, source) == 4, "a clock that was set back"

    asyncio.run(steps())


def test_what_fails_is_not_remembered_and_the_oldest_is_forgotten() -> None:
    async def fails() -> int:
        raise LookupError

    async def steps() -> None:
        cache, source = Cache[str, int](seconds=5, most=2), Source()
        with pytest.raises(LookupError):
            await cache.get("a", 0.0, fails)
        for key in ("a", "b", "c"):
            await cache.get(key, 0.0, source)
        assert await cache.get("c", 0.0, source) == 3
        assert await cache.get("a", 0.0, source) == 4

    asyncio.run(steps())
