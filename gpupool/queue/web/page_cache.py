"""What several visitors' pages need at once, worked out once and kept for some seconds.

So that many open pages cost the queue no more than one.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from gpupool.queue.api.cache import Cache
from gpupool.queue.api.context import RequestContext
from gpupool.queue.domain.explain import Prospect, outlook
from gpupool.queue.prometheus import NotKnown
from gpupool.queue.store import spending
from gpupool.queue.web import pool_use

PROSPECTS = 40
"""Jobs that wait are shown in order as far as this."""
DAYS = 30


class Remembered:
    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._prospects = Cache[str | None, tuple[Prospect, ...]](seconds=2, most=100)
        self._use = Cache[tuple[str, ...], list[spending.DayOfUse]](seconds=30, most=100)
        self._pool_use = Cache[str, pool_use.Use | NotKnown](seconds=60, most=10)

    async def prospects(self, tenant: str | None) -> tuple[Prospect, ...]:
        """The queue in order, or a tenant's part of it."""

        async def read() -> tuple[Prospect, ...]:
            view = await self._context.explanations.view(self._context.current(), self._context.clock())
            return await asyncio.to_thread(outlook, view, PROSPECTS, tenant)

        return await self._prospects.get(tenant, self._context.now(), read)

    async def use(self, tenants: tuple[str, ...]) -> list[spending.DayOfUse]:
        """What tenants used on each of the last `DAYS` days."""
        begin = since(self._context.clock())
        return await self._use.get(
            tenants,
            self._context.now(),
            lambda: spending.use_per_day(self._context.db, tenants, begin),
        )

    async def pool_use(self, url: str) -> pool_use.Use | NotKnown:
        """How much pools' GPUs were used within the last day. That Prometheus does not say is remembered too,
        so that pages don't wait for it again and again."""

        async def read() -> pool_use.Use | NotKnown:
            try:
                return await pool_use.of_last_day(url, self._context.clock())
            except NotKnown as error:
                return error

        return await self._pool_use.get(url, self._context.now(), read)


def since(now: datetime) -> datetime:
    """The beginning of the first of the days that charts show."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=DAYS - 1)
