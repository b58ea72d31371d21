"""One attempt after its decision: taken by an executor, started, kept alive, ended, with its logs.

Everything is guarded by (job, attempt) and the state: who comes late changes nothing, and no epoch
is checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from gpupool.queue.records import FailedParent, Job, JobState, Outcome, Placement
from gpupool.queue.store.database import Connection, Database, Row, as_json, fetch, run, storable
from gpupool.queue.store.dependents import settle_dependents, uncount
from gpupool.queue.store.jobs import HttpAnswer
from gpupool.queue.store.rows import job_of, placement_of

SPENT = "its own budget is spent"
MICROSECONDS_PER_HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """An attempt that is not over, and whether it is to stop."""

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
    """An attempt that runs since `now`."""

    job: str
    attempt: int
    now: datetime
    node: str | None = None
    node_at: datetime | None = None
    """Since when it has had that node."""
    capacity_type: str | None = None
    """What its node has turned out to be, where its pool takes spot nodes first; with `rate_micro`."""
    rate_micro: int | None = None
    """Price of an hour there, in millionths of a USD; no more than it was decided with."""


@dataclass(frozen=True, slots=True)
class End:
    """What becomes of a job whose attempt ended."""

    state: JobState
    failures: int = 0
    disruptions: int = 0
    delay_s: float = 0


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


async def started(db: Database, job: str, attempt: int, now: datetime, node: str | None = None) -> bool:
    """The job runs since `now`. False where it runs already, or the attempt is over and must be stopped."""
    return bool(await started_all(db, [AttemptStart(job, attempt, now, node)]))


async def started_all(db: Database, given: Sequence[AttemptStart]) -> set[tuple[str, int]]:
    """(job, attempt) of those that did not run yet, and are not over."""
    values = {
        "ids": [start.job for start in given],
        "attempts": [one.attempt for one in given],
        "times": [one.now for one in given],
        "nodes": [one.node for one in given],
        "node_times": [one.node_at for one in given],
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
    is what it costs and when it ended; None: until `now`, which is then of the clock that gave its start.
    """
    async with db.transaction() as connection:
        ended = await end(connection, job, attempt, outcome, now, backoff, node, ran)
        if result is not None and ended is not None and ended.state.final:
            await _keep(connection, job, result)
        return ended


async def end(
    connection: Connection,
    job: str,
    attempt: int,
    outcome: Outcome,
    now: datetime,
    backoff: tuple[float, float],
    node: str | None = None,
    ran: timedelta | None = None,
) -> Job | None:
    """`finish` within the caller's transaction, without a result."""
    rows = await fetch(connection, "finish_lock", job=job, attempt=attempt)
    if not rows:
        return None
    row = rows[0]
    outcome = _decided(row, outcome)
    if outcome.reason:  # a container's own message may have what PostgreSQL can't keep
        outcome = replace(outcome, reason=storable(outcome.reason))
    after = following(row, outcome, backoff)
    begun = row["started_at"]
    ran = max(timedelta(), now - begun if ran is None else ran) if begun else timedelta()
    cost = cost_of(row["rate_micro"], ran, row["hold_micro"])
    if after.state is JobState.QUEUED and _spent(row, cost):
        after = End(JobState.FAILED, after.failures, after.disruptions)
        outcome = replace(outcome, reason=SPENT)
    again = after.state is JobState.QUEUED
    unqueued: list[str] = []
    if row["dependents"] and not again:  # first, because lanes come before accounts
        ending = {job: row["group_id"]}
        cause = FailedParent(job, job, after.state, outcome.reason)
        unqueued = await settle_dependents(connection, row["tenant"], ending, now, cause)
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
        spot_losses=int(_spot_lost(row) and after.disruptions),
        outcome=outcome.kind,
        reason=outcome.reason,
        exit_code=outcome.exit_code,
        cost=cost,
        node=node,
        hold=row["hold_micro"],
        rest=row["hold_micro"] - cost,
        clock=round(row["gpu_micro"] * (ran.total_seconds() - row["run_limit_s"]) / row["weight"]),
        not_before=now + timedelta(seconds=after.delay_s) if again and after.delay_s else None,
        now=begun + ran if begun else now,
    )
    await uncount(connection, unqueued)
    return job_of(ended[0])


def _decided(row: Row, outcome: Outcome) -> Outcome:
    """How an attempt ends that was asked to stop, by what the locked row says of that: the request and
    the attempt's own end may cross. Success comes first, as it is reported only where no request came before
    it; then who cancelled, then who stopped it as idle."""
    if outcome.kind == "succeeded":
        return Outcome("succeeded", None, outcome.exit_code)
    if row["cancel_requested"]:
        return Outcome("cancelled", row["reason"], outcome.exit_code)
    if (asked := row["preempt_reason"] or {}).get("outcome") == "failed":
        return Outcome("failed", asked["reason"], outcome.exit_code, retry=False)
    return outcome


def following(row: Row, outcome: Outcome, backoff: tuple[float, float]) -> End:
    """What follows from an outcome. Failures of the job's own count against its `retries`; those of the
    platform, which has retries of its own, disruptions and preemptions do not. Where one of these came before
    the attempt had started, and is not the job's first, there is a pause as well."""
    if outcome.kind == "succeeded":
        return End(JobState.SUCCEEDED)
    if outcome.kind == "cancelled":
        return End(JobState.CANCELLED)
    if outcome.kind in ("disrupted", "preempted") and outcome.retry:
        # What takes pods away before they start may do so for ever.
        again = row["started_at"] is None and row["preempt_reason"] is None and row["disruptions"] > 0
        return End(
            JobState.QUEUED, disruptions=1, delay_s=_delay_s(backoff, row["disruptions"]) if again else 0.0
        )
    if outcome.platform_retries is not None:
        number, retries = row["unstarted"] + 1, max(outcome.platform_retries, row["retries"])
        if outcome.retry and number <= retries:
            return End(JobState.QUEUED, disruptions=1, delay_s=_delay_s(backoff, number))
        return End(JobState.FAILED, failures=1)
    failures = row["failures"] + 1
    if outcome.kind == "timeout" or not outcome.retry or failures > row["retries"]:
        return End(JobState.FAILED, failures=1)
    return End(JobState.QUEUED, failures=1, delay_s=max(outcome.pause_s, _delay_s(backoff, failures)))


def _spot_lost(row: Row) -> bool:
    """Whether a disruption tells against spot nodes: what never ran may have waited for its launcher."""
    return row["capacity_type"] == "spot" and row["started_at"] is not None and not row["preempt_reason"]


def _delay_s(backoff: tuple[float, float], number: int) -> float:
    """Before the retry of that number, counted from 1."""
    base, cap = backoff
    return min(cap, base * 2.0 ** min(number - 1, 60))


def _spent(row: Row, cost: int) -> bool:
    """Whether the job's own budget does not pay for another second."""
    if row["budget_limit_micro"] is None or not row["rate_micro"]:
        return False
    left: int = row["budget_limit_micro"] - row["cost_micro"] - cost
    return left * 3600 < int(row["rate_micro"])


def cost_of(rate_micro: int, ran: timedelta, hold_micro: int) -> int:
    """What an attempt costs: its time at the hourly rate, rounded up, and never more than was held for it."""
    micros = ran // timedelta(microseconds=1)
    return min(hold_micro, -(-rate_micro * micros // MICROSECONDS_PER_HOUR))


async def of_job(db: Database, job: str, limit: int = 50) -> list[StoredAttempt]:
    """The latest attempts of a job, in order."""
    rows = await db.fetch("attempts_of_job", job=job, limit=limit)
    return [StoredAttempt(**{**row, "placement": placement_of(row["placement"])}) for row in reversed(rows)]


async def _keep(connection: Connection, job: str, result: HttpAnswer) -> None:
    values: dict[str, Any] = {"status": result.status, "body": result.body, "truncated": result.truncated}
    await run(connection, "result_write", job=job, headers=as_json(result.headers), **values)
