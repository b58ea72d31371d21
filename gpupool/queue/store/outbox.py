"""Events: written with what they report, put in one order by the relay, published, read.

A number says when an event was written, not when it was committed; a reader that went on from the highest
number would miss some. So one process gives positions, without gaps, to events that it sees. This module must
not publish.
"""

from __future__ import annotations

from collections.abc import Collection

from gpupool.queue.records import JobEvent
from gpupool.queue.store.database import Database, fetch
from gpupool.queue.store.dispatch import fence
from gpupool.queue.store.rows import event_of

ROLE = "relay"
"""The role whose epoch `place` checks."""


async def place(db: Database, epoch: int, limit: int = 500) -> list[JobEvent]:
    """Give positions to events that have none; those events, in order. Raises Deposed."""
    async with db.transaction() as connection:
        await fence(connection, ROLE, epoch)
        return [event_of(row) for row in await fetch(connection, "place", limit=limit)]


async def unpublished(db: Database, limit: int = 500) -> list[JobEvent]:
    """Placed events that are not published yet, in order."""
    return [event_of(row) for row in await db.fetch("unpublished", limit=limit)]


async def published(db: Database, last: JobEvent) -> None:
    """The bus has accepted all placed events up to this one."""
    await db.run("published", position=last.position)


async def after(
    db: Database, position: int, tenants: Collection[str] | None = None, limit: int = 500
) -> list[JobEvent]:
    """Placed events after a position, of some tenants or of all."""
    values = {"position": position, "limit": limit, "tenants": None if tenants is None else list(tenants)}
    return [event_of(row) for row in await db.fetch("events_after", **values)]


async def bounds(db: Database) -> tuple[int, int]:
    """The first position that is kept, and the last that was given."""
    row = (await db.fetch("events_bounds"))[0]
    return row["oldest"], row["latest"]


async def of_job(db: Database, job: str) -> list[JobEvent]:
    """All events of a job that are kept, placed or not, in order."""
    return [event_of(row) for row in await db.fetch("events_of_job", job=job)]
