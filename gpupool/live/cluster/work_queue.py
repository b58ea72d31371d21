"""Work by key, like the work queues of Kubernetes' controllers: a key is worked on by one task at a time, and
once more when it is added meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Calls `work` for each key, for at most `at_once` of them at a time, and `failed` for what it raises."""

    def __init__(
        self, work: Callable[[K], Awaitable[None]], failed: Callable[[K, Exception], None], at_once: int
    ) -> None:
        self._work = work
        self._failed = failed
        self._slots = asyncio.Semaphore(at_once)
        self._busy: set[K] = set()
        self._again: set[K] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, key: K) -> None:
        """Work on `key` now, or once more after the work that is under way."""
        if key in self._busy:
            self._again.add(key)
            return
        self._busy.add(key)
        self.start(self._run(key))

    def start(self, other: Coroutine[Any, Any, None]) -> None:
        """Something else that ends with this queue."""
        task = asyncio.create_task(other)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def idle(self) -> None:
        """Until nothing is worked on: for tests."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        """Cancel what is under way; the queue can be used again."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._busy.clear()
        self._again.clear()

    async def _run(self, key: K) -> None:
        try:
            while True:
                self._again.discard(key)
                async with self._slots:
                    await self._work(key)
                if key not in self._again:
                    return
        except Exception as error:
            self._failed(key, error)
        finally:
            self._busy.discard(key)
