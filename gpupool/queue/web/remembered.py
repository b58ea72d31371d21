"""What several visitors' pages need at once, worked out once and kept for some seconds.

So that many open pages cost the queue no more than one. This module must not decide what a visitor may see.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from gpupool.queue.api.context import Context
from gpupool.queue.domain.explain import Prospect, outlook
from gpupool.queue.domain.state import Snapshot
from gpupool.queue.records import Job
from gpupool.queue.store import accounts, jobs

PROSPECTS = 200
"""Jobs that wait are shown in order as far as this."""
PROSPECTS_S, USE_S = 2.0, 30.0
DAYS = 30


class Remembered:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._ordering, self._adding = asyncio.Lock(), asyncio.Lock()
        self._prospects: tuple[float, tuple[Prospect, ...]] | None = None
        self._use: dict[tuple[str, ...], tuple[float, list[accounts.DayOfUse]]] = {}

    async def snapshot(self) -> Snapshot:
        return await self._context.explanations.snapshot(self._context.clock())

    async def prospects(self) -> tuple[Prospect, ...]:
        """The queue in order."""
        now = self._context.now()
        async with self._ordering:
            if self._prospects is None or not 0 <= now - self._prospects[0] < PROSPECTS_S:
                supply = self._context.current().supply
                found = await asyncio.to_thread(outlook, await self.snapshot(), supply, PROSPECTS)
                self._prospects = (now, found)
            return self._prospects[1]

    async def use(self, tenants: tuple[str, ...]) -> list[accounts.DayOfUse]:
        """What tenants used on each of the last `DAYS` days."""
        now = self._context.now()
        async with self._adding:
            at, rows = self._use.get(tenants, (float("-inf"), []))
            if not 0 <= now - at < USE_S:
                rows = await accounts.use_per_day(self._context.db, tenants, since(self._context.clock()))
                self._use = {known: kept for known, kept in self._use.items() if now - kept[0] < USE_S}
                self._use[tenants] = (now, rows)
            return rows

    async def named(self, ids: list[str]) -> dict[str, Job]:
        """Jobs by id."""
        found = [await jobs.job(self._context.db, id) for id in ids]
        return {job.id: job for job in found if job is not None}


def since(now: datetime) -> datetime:
    """The beginning of the first of the days that charts show."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=DAYS - 1)
