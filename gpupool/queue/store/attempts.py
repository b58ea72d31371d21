"""One attempt after its decision: taken by an executor, started, kept alive, ended, with an HTTP result.

Every write is guarded by (job, attempt) and the state: one that comes late changes nothing, and no epoch is
checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gpupool.queue.domain.attempt_end import Attempt, end_of
from gpupool.queue.records import FailedParent, Job, Outcome, Placement
from gpupool.queue.store.database import Connection, Database, Row, as_json, fetch, run, storable
from gpupool.queue.store.dependents import settle_dependents, uncount
from gpupool.queue.store.jobs import HttpAnswer
from gpupool.queue.store.rows import job_of, placement_of

_SAME = (
    *("capacity_type", "rate_micro", "hold_micro", "gpu_micro", "run_limit_s", "weight", "retries"),
    *("failures", "disruptions", "unstarted", "budget_limit_micro"),
)
"""Fields of an attempt that are columns of the same name."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An attempt that is not over, and whether it is asked to stop."""

    job: str
    attempt: int
    cancelled: bool
    preempted: str | None
    """Why it gives way to another job, or is stopped as idle."""


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """One attempt as it is remembered."""

    attempt: int
    pool: str
    capacity_type: str
    placement: Placement
    dispatched_at: datetime
    launched_at: datetime | None
    """When its Kubernetes Job was created."""
    node: str | None
    """Where its pod runs."""
    started_at: datetime | None
    finished_at: datetime | None
    outcome: str | None
    reason: str | None
    exit_code: int | None
    cost_micro: int
    borrowed: bool = False
    """Whether it started beyond its tenant's grant."""


@dataclass(frozen=True, slots=True)
class AttemptStart:
    """An attempt that runs `since` then."""

    job: str
    attempt: int
    since: datetime
    node: str | None = None
    node_at: datetime | None = None
    """Since when it has had that node."""
    capacity_type: str | None = None
    """What its node has turned out to be, where its pool takes spot nodes first; with `rate_micro`."""
    rate_micro: int | None = None
    """Price of an hour there, in millionths of a USD; no more than it was decided with."""


async def take(
    db: Database,
    executor: str,
    limit: int,
    lease_s: float,
    now: datetime | None = None,
    containers: bool = True,
) -> list[Job]:
    """Dispatched jobs that no executor has, for this one; it keeps them by `heartbeat`. HTTP jobs, and with
    `containers` container jobs too."""
    http = [True, False] if containers else [True]
    values = {"executor": executor, "limit": limit, "lease_s": lease_s, "now": now, "http": http}
    rows = await db.fetch("take", **values)
    return sorted(map(job_of, rows), key=lambda job: (job.dispatched_at, job.id))


async def record_start(
    db: Database, job: str, attempt: int, since: datetime, node: str | None = None
) -> bool:
    """Record that an attempt runs. False where it runs already, or is over and must be stopped."""
    return bool(await record_starts(db, [AttemptStart(job, attempt, since, node)]))


async def record_starts(db: Database, given: Sequence[AttemptStart]) -> set[tuple[str, int]]:
    """Record that attempts run; (job, attempt) of those that did not run before, and are not over."""
    values = {
        "ids": [start.job for start in given],
        "attempts": [start.attempt for start in given],
        "times": [start.since for start in given],
        "nodes": [start.node for start in given],
        "node_times": [start.node_at for start in given],
        "types": [start.capacity_type for start in given],
        "rates": [start.rate_micro for start in given],
    }
    return {(row["job"], row["attempt"]) for row in await db.fetch("started", **values)}


async def heartbeat(
    db: Database,
    executor: str,
    held: Mapping[tuple[str, int], float],
    lease_s: float,
    now: datetime | None = None,
) -> list[Asked]:
    """Keep attempts, (job, attempt) -> seconds that it has run, for another `lease_s`; those that are still
    the executor's. What it ran is charged should the executor be heard no more."""
    ids, attempts = [job for job, _ in held], [attempt for _, attempt in held]
    values = {"ids": ids, "attempts": attempts, "ran_s": list(held.values())}
    values |= {"executor": executor, "lease_s": lease_s, "now": now}
    return [Asked(**row) for row in await db.fetch("heartbeat", **values)] if held else []


async def finish(
    db: Database,
    job: str,
    attempt: int,
    outcome: Outcome,
    now: datetime,
    backoff: tuple[float, float],
    result: HttpAnswer | None = None,
    node: str | None = None,
    ran: timedelta | None = None,
) -> Job | None:
    """End an attempt: settle its cost, and queue the job again or make it final. None: it was over already.

    `backoff`: seconds before the first retry, doubled for each one after it, and their upper limit.
    `node`: where it ended so, if that is known. `ran`: for how long, by the one clock that measured it, which
    is what it costs and when it ended; None: until `now`, which is then of the clock that gave its start. An
    attempt that has not started did not run, whatever `ran` says, and ended at `now`.
    """
    async with db.transaction() as connection:
        ended = await finish_within(connection, job, attempt, outcome, now, backoff, node, ran)
        if result is not None and ended is not None and ended.state.final:
            await _keep_result(connection, job, result)
        return ended


async def finish_within(
    connection: Connection,
    job: str,
    attempt: int,
    outcome: Outcome,
    now: datetime,
    backoff: tuple[float, float],
    node: str | None = None,
    ran: timedelta | None = None,
) -> Job | None:
    """`finish` in the caller's transaction, without a result."""
    rows = await fetch(connection, "finish_lock", job=job, attempt=attempt)
    if not rows:
        return None
    row = rows[0]
    started_at, lasted = row["started_at"], timedelta()
    if started_at is not None:
        lasted = max(lasted, now - started_at if ran is None else ran)
    after = end_of(_attempt(row), outcome, lasted, backoff)
    outcome, again = after.outcome, after.again
    # A container's own message may have what PostgreSQL can't keep.
    reason = storable(outcome.reason) if outcome.reason else outcome.reason
    unqueued: list[str] = []
    if row["dependents"] and not again:  # first, because lanes come before accounts
        group_of = {job: row["group_id"]}
        cause = FailedParent(job, job, after.state, reason)
        unqueued = await settle_dependents(connection, row["tenant"], group_of, now, cause)
    ended = await fetch(
        connection,
        "finish",
        **{name: row[name] for name in ("period_tenant", "period_project", "pool", "tenant", "project")},
        job=job,
        attempt=attempt,
        state=after.state.value,
        again=again,
        failures=after.failures,
        disruptions=after.disruptions,
        spot_losses=after.spot_losses,
        outcome=outcome.kind,
        reason=reason,
        exit_code=outcome.exit_code,
        cost=after.cost_micro,
        node=node,
        hold=row["hold_micro"],
        rest=row["hold_micro"] - after.cost_micro,
        clock=after.clock,
        not_before=now + timedelta(seconds=after.delay_s) if again and after.delay_s else None,
        now=now if started_at is None else started_at + lasted,
    )
    await uncount(connection, unqueued)
    return job_of(ended[0])


def _attempt(row: Row) -> Attempt:
    """The locked row of an attempt."""
    asked = row["preempt_reason"]
    return Attempt(
        started=row["started_at"] is not None,
        stopping=asked is not None,
        stopped_as=asked["reason"] if asked and asked.get("outcome") == "failed" else None,
        cancelled=row["cancel_requested"],
        cancel_reason=row["reason"],
        spent_micro=row["cost_micro"],
        **{name: row[name] for name in _SAME},
    )


async def of_job(db: Database, job: str, limit: int = 50) -> list[StoredAttempt]:
    """The latest attempts of a job, in order."""
    rows = await db.fetch("attempts_of_job", job=job, limit=limit)
    return [StoredAttempt(**{**row, "placement": placement_of(row["placement"])}) for row in reversed(rows)]


async def _keep_result(connection: Connection, job: str, result: HttpAnswer) -> None:
    values: dict[str, Any] = {"status": result.status, "body": result.body, "truncated": result.truncated}
    await run(connection, "result_write", job=job, headers=as_json(result.headers), **values)
