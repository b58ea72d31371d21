"""Jobs as their users handle them: submit, read, list, cancel, change the priority."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.errors import RaiseException

from gpupool.queue.domain.lanes import lane_of
from gpupool.queue.records import Job, JobState, NewJob
from gpupool.queue.store.database import Connection, Database, as_json, fetch, run, send
from gpupool.queue.store.dependents import (
    DependencyState,
    dependency_state,
    is_id,
    lock_dependents,
    locked_dependencies,
    settle_dependents,
    uncount,
    waits_until,
)
from gpupool.queue.store.errors import Conflict, IdempotencyMismatch, QueueFull, StoreError, Unknown
from gpupool.queue.store.rows import job_of

NEWEST = (datetime(9999, 12, 31, tzinfo=UTC), "ffffffff-ffff-ffff-ffff-ffffffffffff")
"""Where the first page of a list begins."""
FILTERED = ("project", "pool", "user", "group", "name")
"""Fields of a filter that are compared as they are."""
PAGE_BYTES = 4 * 2**20
"""A page ends with the job whose request reaches so much: once read, they take several times as much."""


@dataclass(frozen=True, slots=True)
class Key:
    """An Idempotency-Key, and a hash of the request that it was sent with."""

    text: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Submitted:
    """What a request made."""

    ids: tuple[str, ...]
    replayed: bool
    """The request had been made before, with the same key: these are the jobs that it made then."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; None is any."""

    tenants: frozenset[str] | None = None
    states: frozenset[JobState] | None = None
    project: str | None = None
    pool: str | None = None
    user: str | None = None
    group: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, newest first."""

    jobs: tuple[Job, ...]
    next: str | None
    """Cursor of the next page; None on the last one."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What the target of an HTTP job answered."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    """Its first MiB at most."""
    truncated: bool


async def submit(
    db: Database,
    jobs: Sequence[NewJob],
    key: Key | None = None,
    queued_limit: int | None = None,
    now: datetime | None = None,
) -> Submitted:
    """Store the jobs of one request, of one tenant and with the same dependencies, or return what the same
    request made before.

    Raises IdempotencyMismatch, QueueFull, UnknownDependency; then nothing is stored.
    """
    now = now or datetime.now(UTC)
    tenant, ids = jobs[0].tenant, tuple(job.id for job in jobs)
    async with locked_dependencies(db, jobs[0]) as (connection, dependencies):
        given = [_new(job, dependencies, now, index) for index, job in enumerate(jobs)]
        values = {
            "tenant": tenant,
            "key": key.text if key else None,
            "fingerprint": key.fingerprint if key else b"",
            "ids": list(ids),
            "now": now,
        }
        try:
            made = await fetch(connection, "submit", jobs=as_json(given), limit=queued_limit, **values)
        except RaiseException:
            raise QueueFull(tenant, queued_limit or 0) from None
        if not made:  # the key was used before
            replayed = await _before(connection, tenant, key) if key else None
            if replayed is None:
                raise StoreError("the Idempotency-Key was deleted at this moment; send the request again")
            return replayed
    return Submitted(ids, replayed=False)


async def made_before(db: Database, tenant: str, key: Key) -> Submitted | None:
    """What the tenant's request of this key made; None where there was none. Raises IdempotencyMismatch."""
    async with db.connection() as connection:
        return await _before(connection, tenant, key)


async def made_by(db: Database, tenant: str, key: str) -> Job | None:
    """The first job of the tenant's submission with that key; None where there was none, or it is gone."""
    rows = await db.fetch("idempotency_read", tenant=tenant, key=key)
    return await job(db, rows[0]["job_ids"][0]) if rows else None


async def job(db: Database, id: str) -> Job | None:
    """The job, archived or not."""
    if not is_id(id):
        return None
    async with db.connection() as connection:
        rows = await fetch(connection, "job", id=id)
    return job_of(rows[0]) if rows else None


async def jobs(db: Database, filter: JobFilter, cursor: str | None = None, limit: int = 50) -> Page:
    """A page of the jobs that `filter` selects, `limit` at most. Raises StoreError for a cursor that no page
    returned."""
    if filter.group is not None and not is_id(filter.group):
        return Page((), None)
    before, before_id = _place(cursor) if cursor else NEWEST
    values: dict[str, Any] = {
        "states": [state.value for state in filter.states] if filter.states is not None else None,
        **{name: getattr(filter, name) for name in FILTERED},
        "before": before,
        "before_id": before_id,
        "limit": limit + 1,
        "bytes": PAGE_BYTES,
    }
    name = "jobs_of_all"
    if filter.tenants is not None:
        name, values["tenants"] = "jobs_of_tenants", sorted(filter.tenants)
    async with db.connection() as connection:
        # Which index is best depends on which filters are set.
        rows = await (await send(connection, name, values, planned=True)).fetchall()
    page = tuple(map(job_of, rows[:limit]))
    return Page(page, _cursor(page[-1]) if page and rows[0]["found"] > len(page) else None)


async def cancel(db: Database, id: str, by: str, now: datetime) -> Job | None:
    """Cancel a queued job at once, and ask for a held one to stop. A final job is returned as it is."""
    if (before := await job(db, id)) is None:
        return None
    reason = f"cancelled by {by}"
    async with db.transaction() as connection:
        if before.blocked:
            await lock_dependents(connection, before.tenant)
        await run(connection, "job_lock", id=id)  # an attempt may end now, and the job be queued again
        values = {"id": id, "reason": reason, "now": now, "by": by, "state": "cancelled"}
        if rows := await fetch(connection, "cancel_queued", **values):
            ended = {id: rows[0]["group_id"]}
            unqueued = await settle_dependents(connection, before.tenant, ended, now)
            await uncount(connection, [before.tenant, *unqueued])
        else:
            rows = await fetch(connection, "cancel_held", id=id, reason=reason)
            rows = rows or await fetch(connection, "job", id=id)
    return job_of(rows[0]) if rows else None


async def reprioritise(
    db: Database,
    id: str,
    priority: str,
    level: int,
    version: int | None = None,
    preemptible: bool | None = None,
    preempts: bool | None = None,
) -> Job:
    """Change the priority of a queued job. Raises Conflict where it is not queued or not of that version."""
    async with db.transaction() as connection:
        rows = await fetch(connection, "job", id=id) if is_id(id) else []
        if not rows:
            raise Unknown(id)
        job = job_of(rows[0])
        preemptible = job.preemptible if preemptible is None else preemptible
        preempts = job.preempts if preempts is None else preempts
        if job.state is not JobState.QUEUED or version not in (None, job.version):
            raise Conflict(job.version, job.state)
        changed = await fetch(
            connection,
            "reprioritise",
            id=id,
            priority=priority,
            level=int(level),
            lane=lane_of(job.offers, level, job.project, preemptible, preempts),
            preemptible=preemptible,
            preempts=preempts,
            version=job.version,
        )
        if not changed:
            raise Conflict(job.version + 1, "changing")
        await run(connection, "lanes", ids=[id])
    return job_of(changed[0])


async def check_dependencies(db: Database, job: NewJob) -> None:
    """Raises UnknownDependency where it depends on what is no job or array of its tenant."""
    async with db.connection() as connection:
        await dependency_state(connection, job)


async def answers(db: Database) -> None:
    """Raises StoreError where the database does not answer, or lacks today's tables."""
    await db.fetch("answers")


async def depth(db: Database) -> dict[tuple[str, int], int]:
    """(tenant, level) -> queued jobs."""
    async with db.connection() as connection:
        return {(row["tenant"], row["level"]): row["jobs"] for row in await fetch(connection, "depth")}


@dataclass(frozen=True, slots=True)
class Waits:
    """Queued jobs that are alike in these."""

    tenant: str
    level: int
    pool: str
    """Of their first offer; empty where they have none any more."""
    reason: str
    """Why they wait, of `Reason`."""
    jobs: int
    since: datetime | None
    """Since when the first of them has waited without a break; None where each comes after another."""


async def waiting(db: Database, now: datetime) -> list[Waits]:
    """All queued jobs, counted."""
    return [Waits(**row) for row in await db.fetch("waiting", now=now)]


async def result(db: Database, id: str) -> HttpAnswer | None:
    """What the target of an HTTP job answered; None where there is no answer (yet)."""
    async with db.connection() as connection:
        rows = await fetch(connection, "result", job=id) if is_id(id) else []
    if not rows:
        return None
    row = rows[0]
    headers = tuple((name, value) for name, value in row["headers"])
    return HttpAnswer(row["status"], headers, bytes(row["body"]), row["truncated"])


async def _before(connection: Connection, tenant: str, key: Key) -> Submitted | None:
    rows = await fetch(connection, "idempotency_read", tenant=tenant, key=key.text)
    if rows and bytes(rows[0]["fingerprint"]) != key.fingerprint:
        raise IdempotencyMismatch(key.text)
    return Submitted(tuple(rows[0]["job_ids"]), replayed=True) if rows else None


def _new(job: NewJob, dependencies: DependencyState, now: datetime, index: int) -> dict[str, Any]:
    """The row of submit.sql. Members of an array follow each other by a microsecond, and so stay in order."""
    return {
        **{name: getattr(job, name) for name in NewJob.__slots__},
        "user_name": job.user,
        "offers": [offer.as_dict() for offer in job.offers],
        "lane": lane_of(job.offers, job.level, job.project, job.preemptible, job.preempts),
        "blocked": dependencies.waits and dependencies.cause is None,
        "cause": dependencies.cause.as_dict() if dependencies.cause else None,
        "waits": waits_until(job),
        "deadline_at": job.deadline_at.isoformat() if job.deadline_at else None,
        "enqueued_at": (now + timedelta(microseconds=index)).isoformat(),
    }


def _cursor(job: Job) -> str:
    return base64.urlsafe_b64encode(f"{job.enqueued_at.isoformat()} {job.id}".encode()).decode().rstrip("=")


def _place(cursor: str) -> tuple[datetime, str]:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        at, _, id = text.partition(" ")
        place = datetime.fromisoformat(at), str(UUID(id))
    except (ValueError, binascii.Error):
        raise StoreError(f"{cursor[:100]!r} is no cursor; take the one that the last page returned") from None
    if place[0].tzinfo is None:
        raise StoreError(f"{cursor[:100]!r} is no cursor; take the one that the last page returned")
    return place
