"""One process at a time acts in a role: a lease in the database, with an epoch that fences every write.

A leader that was paused stops by its own clock before its lease ends, and if it does not, the database
refuses what it writes under an old epoch.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import structlog

from gpupool.queue.roles.loop import repeat
from gpupool.queue.store import dispatch
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import Deposed

log = structlog.get_logger()


def utc_now() -> datetime:
    """The present time."""
    return datetime.now(UTC)


def steady(start: tuple[datetime, float] = (utc_now(), time.monotonic())) -> datetime:
    """A time that never jumps, for durations: when this process started, and what has passed since."""
    return start[0] + timedelta(seconds=time.monotonic() - start[1])


@dataclass
class Leadership:
    """A candidate for one role. `holder` must be unique to the process."""

    db: Database
    role: str
    holder: str
    ttl_s: float
    clock: Callable[[], float] = time.monotonic
    _epoch: int | None = field(default=None, init=False)
    _asked: float = field(default=0.0, init=False)

    @property
    def epoch(self) -> int | None:
        """The epoch to write under; None where another process leads, or this one's lease is nearly over."""
        if self._epoch is not None and self.clock() - self._asked > self.ttl_s * 2 / 3:
            self._epoch = None
        return self._epoch

    async def seek(self) -> int | None:
        """Take or renew the lease; at most every third of its time goes to the database."""
        if self._epoch is not None and self.clock() - self._asked < self.ttl_s / 3:
            return self._epoch
        asked = self.clock()
        before, self._epoch = self._epoch, None
        self._epoch = await dispatch.lead(self.db, self.role, self.holder, self.ttl_s)
        self._asked = asked
        if self._epoch is not None and before is None:
            log.info("leader.elected", role=self.role, holder=self.holder, epoch=self._epoch)
        return self.epoch

    async def act(self, work: Callable[[int], Awaitable[bool]]) -> bool:
        """Do `work` under the epoch, if this process leads; whether more is to be done at once."""
        epoch = await self.seek()
        if epoch is None:
            return False
        try:
            return await work(epoch)
        except Deposed as error:
            log.warning("leader.deposed", role=self.role, holder=self.holder, error=str(error))
            self._epoch = None
            return False

    async def run(
        self,
        step: Callable[[], Awaitable[bool]],
        wake: asyncio.Event,
        interval_s: Callable[[], float],
        delay_s: float,
    ) -> None:
        """Steps until cancelled; then another process may lead at once."""
        try:
            await repeat(self.role, step, interval_s, wake, delay_s)
        finally:
            await self.resign()

    async def resign(self) -> None:
        """Let another process lead at once."""
        self._epoch = None
        await dispatch.resign(self.db, self.role, self.holder)


@dataclass
class LeaderRole(ABC):
    """A role in which the process acts while it leads."""

    db: Database
    leadership: Leadership

    interval_s = 2.0
    """Between two steps where nothing wakes it."""
    leading_interval_s: ClassVar[float | None] = None
    """The same while it leads, where that differs."""
    delay_s = 0.0
    """From a wake-up to the step."""

    async def run(self, wake: asyncio.Event) -> None:
        """Steps until cancelled."""

        def interval_s() -> float:
            leads = self.leadership.epoch is not None
            return self.leading_interval_s if leads and self.leading_interval_s else self.interval_s

        await self.leadership.run(self.step, wake, interval_s, self.delay_s)

    async def step(self) -> bool:
        """Do what is due, if this process leads; whether there may be more at once."""
        return await self.leadership.act(self._act)

    @abstractmethod
    async def _act(self, epoch: int) -> bool:
        """A step, under that epoch."""
