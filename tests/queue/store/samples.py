"""Jobs and decisions for the tests of the store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from gpupool.queue.domain.state import Snapshot
from gpupool.queue.records import Decision, Job, Level, NewJob, Offer, Outcome, Start, new_id
from gpupool.queue.store import attempts, dispatch, plans
from gpupool.queue.store import jobs as store
from gpupool.queue.store.database import Database
from gpupool.queue.store.snapshot import take_snapshot
from tests.queue.lanes import in_lanes

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
OFFER = Offer("t4", "nvidia.com/gpu.shared", 1, 1, 250_000, 360_000, None, "t4")
"""A quarter of a GPU; 100 micro-USD a second."""


def new(tenant: str = "vision", **given: Any) -> NewJob:
    """A job; `depends_on` may be one id."""
    if isinstance(given.get("depends_on"), str):
        given["depends_on"] = (given["depends_on"],)
    job = NewJob(
        id=new_id(),
        tenant=tenant,
        project="detector",
        user="ada",
        name="train",
        priority="medium",
        level=Level.MEDIUM,
        isolation="shared",
        gpu_count=1,
        preemptible=True,
        preempts=False,
        retries=1,
        timeout_s=3600,
        budget_limit_micro=None,
        offers=(OFFER,),
        request={"job_name": "train", "env": {"A": "ü"}},
        plan_hash="sha256:1",
    )
    return replace(job, **given)


async def submitted(db: Database, *, now: datetime = NOW, tenant: str = "vision", **given: Any) -> str:
    """A new job's id."""
    return (await store.submit(db, [new(tenant, **given)], now=now)).ids[0]


async def leading(db: Database, holder: str = "one") -> int:
    epoch = await dispatch.lead(db, dispatch.ROLE, holder, 60)
    assert epoch is not None
    return epoch


async def enacted(db: Database, *policies: dispatch.TenantPolicy, plan_hash: str = "sha256:1") -> None:
    """A Plan with these tenants is in force."""
    await plans.enact(db, await leading(db), plan_hash, policies, "one", NOW)


def start_all(snapshot: Snapshot, hold_micro: int = 360_000, run_limit_s: int = 3600) -> Decision:
    """Every head starts on node 0."""
    starts = [
        Start(
            job=job.job,
            attempt=job.attempt,
            tenant=job.tenant,
            offer=job.offers[0],
            capacity_type="on-demand",
            placement=((0, job.offers[0].units),),
            rate_micro=job.offers[0].rate_micro,
            hold_micro=hold_micro,
            run_limit_s=run_limit_s,
            charge=900_000_000,
        )
        for job in snapshot.queued
    ]
    return Decision(starts=tuple(starts))


async def dispatched(db: Database, *, now: datetime = NOW, only: str | None = None) -> list[str]:
    """Start everything that may start, or one of it; the ids."""
    snapshot = await take_snapshot(db, now, 100)
    if only:
        snapshot = replace(snapshot, lanes=in_lanes(head for head in snapshot.queued if head.job == only))
    plan_hash = snapshot.queued[0].plan_hash if snapshot.queued else "sha256:1"
    return await dispatch.claim(db, await leading(db), start_all(snapshot), plan_hash, 30, now)


async def running(db: Database, *, now: datetime = NOW, **given: Any) -> Job:
    """A job that runs since `now`."""
    id = await submitted(db, now=now, **given)
    assert await dispatched(db, now=now, only=id) == [id]
    assert await attempts.take(db, "executor", 100, 30, now)
    job = await read(db, id)
    assert await attempts.record_start(db, id, job.attempt, now)
    return await read(db, id)


async def finished(db: Database, job: Job, kind: str, after_s: float = 60, **given: Any) -> Job | None:
    now = (job.started_at or job.dispatched_at or NOW) + timedelta(seconds=after_s)
    return await attempts.finish(db, job.id, job.attempt, Outcome(kind, **given), now, (10, 600))


async def read(db: Database, id: str) -> Job:
    job = await store.job(db, id)
    assert job is not None
    return job


async def sql(db: Database, statement: str, *values: Any) -> list[dict[str, Any]]:
    async with db.connection() as connection:
        return await (await connection.execute(statement.encode(), values)).fetchall()


async def cancelled(db: Database, id: str) -> None:
    assert await store.cancel(db, id, "ada", NOW)
