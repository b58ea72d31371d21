"""What jobs come after, and what follows for those and for the tenant's count when a job ends.

Called within the transaction that stores or ends the job. This module must do neither itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from gpupool.queue.records import FailedParent, JobState, NewJob
from gpupool.queue.store.database import Connection, Database, as_json, fetch, run
from gpupool.queue.store.errors import Unavailable, UnknownDependency
from gpupool.queue.store.rows import cause_of

_TRIES = 50
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class DependencyState:
    """How a new job's dependencies stand."""

    waits: bool = False
    """One of them is not over."""
    cause: FailedParent | None = None
    """Why one of them did not succeed that must."""


async def dependency_state(connection: Connection, job: NewJob) -> DependencyState:
    """Of a job that is yet to be stored. Raises UnknownDependency for what is no job or array of its
    tenant."""
    targets = (*job.depends_on, *job.depends_on_ended)
    for target in targets:
        if not is_id(target):
            raise UnknownDependency(target)
    if not targets:
        return DependencyState()
    values: dict[str, Any] = {"succeed": list(job.depends_on), "finish": list(job.depends_on_ended)}
    row = (await fetch(connection, "dependency", tenant=job.tenant, **values))[0]
    if row["unknown"]:
        raise UnknownDependency(row["unknown"][0])
    return DependencyState(row["waits"], cause_of(row["cause"]))


@asynccontextmanager
async def locked_dependencies(db: Database, job: NewJob) -> AsyncIterator[tuple[Connection, DependencyState]]:
    """The same, with a connection in whose transaction it stays so: what ends later sees what is stored in
    it. Raises Unavailable where jobs that it depends on are being changed for long."""
    targets = sorted(filter(is_id, {*job.depends_on, *job.depends_on_ended}))
    if not targets:
        async with db.connection() as connection:
            yield connection, await dependency_state(connection, job)
        return
    for _ in range(_TRIES):
        async with db.transaction() as connection:
            rows = await fetch(connection, "dependency_lock", targets=targets, tenant=job.tenant)
            if all(row["locked"] or not row["open"] for row in rows):
                yield connection, await dependency_state(connection, job)
                return
        await asyncio.sleep(_PAUSE_S)
    raise Unavailable(f"jobs that {job.id} depends on are being changed")


def waits_until(job: NewJob) -> str:
    """What a blocked job waits for, in words."""
    parts = [
        f"{' and '.join(ids)} {'has' if len(ids) == 1 else 'have'} {how}"
        for ids, how in ((job.depends_on, "succeeded"), (job.depends_on_ended, "ended"))
        if ids
    ]
    return f"waits until {' and '.join(parts)}"


def is_id(text: str) -> bool:
    """Whether PostgreSQL takes it for a uuid."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


async def lock_dependents(connection: Connection, tenant: str) -> None:
    """No other transaction settles jobs of the tenant until this one has ended. Who will change a blocked job
    calls this before it locks the job, as others change those while they hold this lock."""
    await run(connection, "dependents_lock", tenant=tenant)


async def settle_dependents(
    connection: Connection,
    tenant: str,
    ended: Mapping[str, str | None],
    now: datetime,
    ending: FailedParent | None = None,
) -> list[str]:
    """Let jobs start that waited for these alone, and cancel those that waited for a success that did not
    come, and what depends on those.

    `ended`: ids, each with that of its array. `ending`: how the job that they are ends, where that is yet to
    be written. Returns the tenants of jobs that are queued no longer, one entry for each.
    """
    await lock_dependents(connection, tenant)
    tenants: list[str] = []
    freed: list[str] = []
    unwritten = as_json(ending.as_dict()) if ending else None
    while ended:
        rows = await fetch(
            connection,
            "dependents_settle",
            targets=sorted({id for id in (*ended, *ended.values()) if id}),
            ending=unwritten,
            now=now,
        )
        freed += [row["id"] for row in rows if row["state"] == JobState.QUEUED]
        ended = {row["id"]: row["group_id"] for row in rows if row["state"] != JobState.QUEUED}
        tenants += [row["tenant"] for row in rows if row["id"] in ended]
    if freed:
        await run(connection, "lanes", ids=freed)
    return tenants


async def uncount(connection: Connection, tenants: Iterable[str]) -> None:
    """Jobs that are queued no longer, by their tenants: one entry for each. A transaction's last write."""
    counted = Counter(tenants)
    if counted:
        await run(connection, "uncount_queued", tenants=list(counted), jobs=list(counted.values()))
