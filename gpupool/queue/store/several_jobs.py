"""Several jobs at a time: ids by their beginning, the jobs of an array, cancelling what a filter selects.

Each is bounded, and the caller goes on where there is more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from gpupool.queue.records import JobState
from gpupool.queue.store.database import Database, send
from gpupool.queue.store.dependents import lock_dependents, settle_dependents, uncount
from gpupool.queue.store.jobs import FILTERED, JobFilter

OPEN = frozenset({JobState.QUEUED, JobState.SCHEDULED, JobState.RUNNING})
AT_ONCE = 1000
"""Jobs that are cancelled in one transaction."""
LISTED = 10
"""Ids of each kind that are listed for a beginning that several have."""


@dataclass(frozen=True, slots=True)
class Ids:
    """What a beginning of an id may mean."""

    jobs: tuple[str, ...]
    arrays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A job of an array."""

    id: str
    tenant: str
    index: int
    state: JobState


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Jobs that a request to cancel has reached."""

    jobs: tuple[tuple[str, JobState], ...]
    """Ids, with their states: what is not cancelled has been asked to stop."""
    more: bool
    """There are others that the filter selects, or that were being changed."""


async def find(db: Database, digits: str, tenants: frozenset[str] | None, limit: int = LISTED + 1) -> Ids:
    """Ids of jobs and arrays that begin with these hexadecimal digits, without hyphens."""
    first, last = (str(UUID(digits.ljust(32, fill))) for fill in "0f")
    values = {
        "first": first,
        "last": last,
        "limit": limit,
        "tenants": None if tenants is None else sorted(tenants),
    }
    async with db.connection() as connection:
        # How many ids lie between the two differs by far.
        rows = await (await send(connection, "find", values, planned=True)).fetchall()
    jobs, arrays = (tuple(row["id"] for row in rows if row["is_array"] is kind) for kind in (False, True))
    return Ids(jobs, arrays)


async def members(db: Database, array: str) -> list[Member]:
    """All jobs of an array, by their index; none where there is no such array."""
    rows = await db.fetch("array_members", array=array)
    return [Member(row["id"], row["tenant"], row["group_index"], JobState(row["state"])) for row in rows]


async def cancel_all(
    db: Database, tenant: str, filter: JobFilter, by: str, now: datetime, limit: int = AT_ONCE
) -> Cancelled:
    """Cancel the jobs of the tenant that `filter` selects, `limit` at most: queued ones end at once, others
    are asked to stop."""
    values = {
        **{name: getattr(filter, name) for name in FILTERED},
        "tenant": tenant,
        "states": sorted(OPEN if filter.states is None else OPEN & filter.states),
        "reason": f"cancelled by {by}",
        "by": by,
        "now": now,
        "limit": limit,
    }
    async with db.transaction() as connection:
        await lock_dependents(connection, tenant)
        rows = await (await send(connection, "cancel_all", values, planned=True)).fetchall()
        reached = [row for row in rows if row["id"]]
        ended = {row["id"]: row["group_id"] for row in reached if row["state"] == JobState.CANCELLED}
        unqueued = await settle_dependents(connection, tenant, ended, now)
        await uncount(connection, [*[tenant] * len(ended), *unqueued])
    jobs = tuple((row["id"], JobState(row["state"])) for row in reached)
    return Cancelled(jobs, sum(row["matching"] or 0 for row in rows) > len(jobs))
