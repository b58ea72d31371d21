"""What time does: leases and deadlines that pass, jobs that go to the archive, what is old enough to delete.

Everything here may run at any time and in several processes at once, so that no epoch is checked: a statement
looks at rows as they are, and one that comes late has an earlier time and does less. Amounts per call are
limited, so that no transaction is long; call again while something was done. It must not decide when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpupool.queue.records import Job, Outcome
from gpupool.queue.store.attempts import finish_within
from gpupool.queue.store.database import Database, fetch, run
from gpupool.queue.store.dependents import lock_dependents, settle_dependents, uncount
from gpupool.queue.store.rows import job_of

LOST = "its executor has not answered"
DEADLINE = "deadline"


@dataclass(frozen=True, slots=True)
class Lease:
    """What an executor renews while it has an attempt."""

    job: str
    attempt: int
    until: datetime
    """Changes with each renewal. By the clock of the database, which may jump: who waits for its end looks
    whether it changes."""
    taken: bool
    """Whether an executor has the attempt."""


async def leases(db: Database) -> list[Lease]:
    """Those of attempts that no cluster has."""
    return [Lease(**row) for row in await db.fetch("leases")]


async def expire_leases(
    db: Database, over: Sequence[Lease], backoff: tuple[float, float], now: datetime
) -> list[Job]:
    """End attempts as disrupted whose lease is still this one. They are charged for what their executor last
    said that they ran. `backoff`: as `gpupool.queue.store.attempts.finish` takes it."""
    ended: list[Job] = []
    for lease in over:
        async with db.transaction() as connection:
            rows = await fetch(
                connection, "lease_expired", job=lease.job, attempt=lease.attempt, until=lease.until
            )
            if not rows:
                continue
            outcome, ran = Outcome("disrupted", LOST), rows[0]["ran"] or timedelta()
            job = await finish_within(connection, lease.job, lease.attempt, outcome, now, backoff, ran=ran)
        if job is not None:
            ended.append(job)
    return ended


async def expire_queued(db: Database, now: datetime, limit: int = 100) -> list[Job]:
    """End queued jobs whose deadline has passed before any attempt of theirs started."""
    late = {row["id"]: row["tenant"] for row in await db.fetch("deadline_passed", now=now, limit=limit)}
    expired: list[Job] = []
    for id, tenant in late.items():
        async with db.transaction() as connection:
            await lock_dependents(connection, tenant)
            values = {"state": "expired", "reason": DEADLINE, "now": now, "by": None}
            rows = await fetch(connection, "cancel_queued", id=id, **values)
            if rows:
                unqueued = await settle_dependents(connection, tenant, {id: rows[0]["group_id"]}, now)
                await uncount(connection, [tenant, *unqueued])
        expired += map(job_of, rows)
    return expired


async def archive(db: Database, before: datetime, limit: int = 1000) -> int:
    """Move jobs that ended before then to the history; how many."""
    return await db.run("archive", before=before, limit=limit)


async def prune(db: Database, what: str, before: datetime, limit: int = 5000) -> int:
    """Delete what is from before then; how many. `what`: `events` that are published, keys of `idempotency`,
    `sessions` of pages, `results` (answers of targets), or `logs` of jobs whose last attempt ended before
    then."""
    return await db.run(f"prune_{what}", before=before, limit=limit)


async def prune_lanes(db: Database) -> int:
    """Delete lanes without jobs that may start; how many."""
    async with db.transaction() as connection:
        await connection.execute(b"SET LOCAL lock_timeout = '1s'")
        await run(connection, "prune_lanes_lock")
        return await run(connection, "prune_lanes")
