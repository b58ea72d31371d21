"""Attempts that run as Jobs of a Kubernetes cluster, and what the cluster's other pods hold.

The process that leads goes on with them: they belong to the cluster, not to a process. This module must not
know what a Job looks like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from gpupool.queue.records import Job, Outcome, Waiting
from gpupool.queue.store import attempts
from gpupool.queue.store.attempts import Asked
from gpupool.queue.store.database import Database, as_json, fetch, run
from gpupool.queue.store.dispatch import fence
from gpupool.queue.store.rows import job_of

ROLE = "launcher"
"""The role whose epoch is checked here."""
EXECUTOR = "kubernetes"
"""Who holds these attempts, whichever process leads."""


@dataclass(frozen=True, slots=True)
class ForeignPods:
    """Units of one node that one tenant's own pods hold."""

    pool: str
    resource: str
    node: int
    """Logical node of the pool."""
    tenant: str
    """Name of the tenant, or of the namespace where it is none's."""
    capacity_type: str
    units: int
    gpu_micro: int


async def take(db: Database, epoch: int, limit: int) -> list[Job]:
    """Dispatched container jobs that are nobody's yet. Raises Deposed."""
    async with db.transaction() as connection:
        await fence(connection, ROLE, epoch)
        rows = await fetch(connection, "take_launches", executor=EXECUTOR, limit=limit)
    return sorted(map(job_of, rows), key=lambda job: (job.dispatched_at, job.id))


async def held(db: Database) -> list[Job]:
    """Every attempt that runs, or is to run, on the cluster."""
    return list(map(job_of, await db.fetch("launches", executor=EXECUTOR)))


async def is_held(db: Database, job: str, attempt: int) -> bool:
    """Whether this is a job's present attempt."""
    return bool(await db.fetch("launch_held", job=job, attempt=attempt))


async def asked(db: Database) -> list[Asked]:
    """Those of them that are to stop."""
    return [Asked(**row) for row in await db.fetch("launches_asked", executor=EXECUTOR)]


@dataclass(frozen=True, slots=True)
class Launched:
    """The Job of an attempt exists since then."""

    job: str
    attempt: int
    name: str
    at: datetime


async def record_launches(db: Database, given: Sequence[Launched]) -> None:
    """Record that these Jobs exist, once; a former leader says the same, so no epoch is checked."""
    await db.run(
        "launched",
        ids=[one.job for one in given],
        attempts=[one.attempt for one in given],
        names=[one.name for one in given],
        times=[one.at for one in given],
    )


async def record_waits(db: Database, epoch: int, given: Mapping[tuple[str, int], Waiting | None]) -> None:
    """Record why attempts (job, attempt) do not run yet, or what is wrong with those that do; None: nothing
    is. Raises Deposed."""
    ids, numbers = ([key[column] for key in given] for column in range(2))
    texts = [as_json(waiting.as_dict()) if waiting else None for waiting in given.values()]
    async with db.transaction() as connection:
        await fence(connection, ROLE, epoch)
        await run(connection, "launch_waits", ids=ids, attempts=numbers, waits=texts)


async def finish(
    db: Database,
    epoch: int,
    job: str,
    attempt: int,
    outcome: Outcome,
    now: datetime,
    backoff: tuple[float, float],
    node: str | None,
    ran: timedelta | None,
) -> Job | None:
    """`attempts.finish`. Raises Deposed: another process may have launched the attempt since this one saw
    nothing of it."""
    async with db.transaction() as connection:
        await fence(connection, ROLE, epoch)
        return await attempts.finish_within(connection, job, attempt, outcome, now, backoff, node, ran)


async def failed_nodes(db: Database, job: str) -> list[str]:
    """Nodes that another attempt of this job should keep away from."""
    return [row["node"] for row in await db.fetch("failed_nodes", job=job)]


async def logged_until(db: Database, job: str, attempt: int) -> str | None:
    """How far the output has been read."""
    rows = await db.fetch("logged_until", job=job, attempt=attempt)
    return rows[0]["logged_until"] if rows else None


async def replace_foreign(db: Database, epoch: int, pods: Sequence[ForeignPods]) -> None:
    """What pods hold that are not the queue's: these and no others. Raises Deposed."""
    async with db.transaction() as connection:
        await fence(connection, ROLE, epoch)
        await run(connection, "foreign_pods_replace", pods=as_json([asdict(pod) for pod in pods]))
