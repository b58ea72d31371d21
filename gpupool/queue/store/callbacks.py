"""Callbacks of jobs that have ended: written by the transaction that ends a job, removed when they are done.

It must not call anybody: `gpupool.queue.roles.callbacks` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from gpupool.queue.store.database import Database, storable


@dataclass(frozen=True, slots=True)
class Callback:
    """An address that is to be called about a job."""

    job: str
    url: str
    tries: int
    host: str
    """Of the address, with its port."""


async def take(
    db: Database, now: datetime, until: datetime, limit: int = 100, busy: Iterable[str] = ()
) -> list[Callback]:
    """Callbacks to make now, the oldest first, a few of each host that is not `busy`. No other process takes
    them before `until`."""
    values = {"now": now, "until": until, "limit": limit, "busy": list(busy)}
    return [Callback(**row) for row in await db.fetch("callbacks_take", **values)]


async def done(db: Database, job: str) -> None:
    """It was taken, or is given up."""
    await db.run("callback_done", job=job)


async def failed(db: Database, job: str, reason: str, again_at: datetime | None) -> None:
    """It failed, which becomes an event of the job, and is due again then; None: never."""
    await db.run("callback_failed", job=job, error=storable(reason), again_at=again_at)
