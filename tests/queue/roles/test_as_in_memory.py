"""The dispatcher on a real database, and `SchedulerCache` in memory: the same jobs start at the same moments,
on the same nodes, and the same money and clocks are booked."""

from __future__ import annotations

import heapq
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpupool.queue.domain.attempt_end import Attempt, end_of, on_demand_only
from gpupool.queue.domain.lanes import lane_of
from gpupool.queue.domain.scheduler_cache import SchedulerCache
from gpupool.queue.domain.state import Holdings, Queued, Snapshot
from gpupool.queue.records import Level, NewJob, Outcome, Start
from gpupool.queue.roles import dispatcher
from gpupool.queue.store import attempts, dispatch, jobs
from gpupool.queue.store.database import Database
from gpupool.queue.store.snapshot import take_snapshot
from tests.queue.roles.running import SOURCE, Queue, new, opened

BEGAN = datetime(2026, 11, 2, 8, tzinfo=UTC)
BACKOFF = (10.0, 600.0)
Event = tuple[float, int, str, str, int]
Row = tuple[float, str, int, str, str, tuple[tuple[int, int], ...], int]
"""Time, job, attempt, pool, capacity type, place, what it holds."""


def load(seed: int, count: int) -> list[tuple[float, NewJob, float, Outcome]]:
    """Jobs of the local environment: when, what, and how long the first attempt runs and how it ends."""
    rng, at, rows = random.Random(seed), 0.0, []
    for _ in range(count):
        at += rng.choice([0.0, 5.0, 40.0])
        tenant, pools = rng.choice(
            [("vision", ("notebooks", "training", "research-a100")), ("serving", ("training",))]
        )
        level = rng.choice([Level.LOW, Level.LOW, Level.HIGH])
        preempts = level is Level.HIGH and rng.random() < 0.3
        job = new(
            tenant, rng.choice(pools), priority=level.name.lower(), level=level, preempts=preempts,
            preemptible=level is Level.LOW, timeout_s=rng.choice([120, 600, 1800]),
            budget_limit_micro=rng.choice([None, None, 50_000]),
            id=f"00000000-0000-7000-8000-{len(rows):012}",
        )  # fmt: skip
        outcome = Outcome(rng.choice(["succeeded", "succeeded", "failed", "disrupted"]))
        rows.append((at, job, round(job.timeout_s * rng.choice([0.1, 0.5, 0.9]), 3), outcome))
    return rows


def queued_of(job: NewJob, at: float) -> Queued:
    lane = lane_of(job.offers, job.level, job.project, job.preemptible, job.preempts)
    return Queued(
        job.id, 0, job.tenant, job.project, lane, job.level, at, job.offers, job.timeout_s,
        job.budget_limit_micro, 0, job.preemptible, job.preempts,
    )  # fmt: skip


class Book:
    """Events of one side."""

    def __init__(self, rows: list[tuple[float, NewJob, float, Outcome]]) -> None:
        self.events: list[Event] = []
        self.number = 0
        self.runs = {job.id: (seconds, outcome) for _, job, seconds, outcome in rows}
        for at, job, _, _ in rows:
            self.push(at, "submit", job.id, 0)

    def push(self, at: float, what: str, job: str, attempt: int) -> None:
        self.number += 1
        heapq.heappush(self.events, (at, self.number, what, job, attempt))

    def plan(self, now: float, job: str, attempt: int, run_limit_s: int) -> None:
        """The end of an attempt that starts now: later ones succeed, so that all of it comes to an end."""
        seconds, outcome = self.runs[job]
        self.push(now + min(seconds, run_limit_s), "succeeded" if attempt > 1 else outcome.kind, job, attempt)


def in_memory(rows: list[tuple[float, NewJob, float, Outcome]]) -> tuple[list[Row], SchedulerCache]:
    supply, _ = SOURCE.supply()
    began = BEGAN.timestamp()
    cache = SchedulerCache.of(Snapshot(began, Holdings(), {}), supply)
    book, starts = Book(rows), list[Row]()
    known = {job.id: queued_of(job, began + at) for at, job, _, _ in rows}
    retries = {job.id: job.retries for _, job, _, _ in rows}
    counts = {id: [0, 0, 0] for id in known}
    while book.events:
        cache.advance(began + min(book.events[0][0], cache.next_moment - began))
        now = cache.now - began
        while book.events and book.events[0][0] <= now + 1e-9:
            _, _, what, id, attempt = heapq.heappop(book.events)
            if what == "submit":
                cache.submit(known[id])
                continue
            held = cache.held.jobs.get(id)
            if held is None or held.attempt != attempt:
                continue
            job, of = known[id], counts[id]
            rate = next(offer.rate(held.capacity_type) for offer in job.offers if offer.pool == held.pool)
            ending = Attempt(
                started=True, capacity_type=held.capacity_type, rate_micro=rate, hold_micro=held.hold_micro,
                gpu_micro=held.gpu_micro, run_limit_s=held.run_limit_s, retries=retries[id], failures=of[0],
                weight=supply.rule(held.tenant).weight, disruptions=of[1], unstarted=0,
                budget_limit_micro=job.budget_limit_micro, spent_micro=job.spent_micro,
                stopping=held.preempting_for is not None,
            )  # fmt: skip
            end = end_of(ending, Outcome(what), timedelta(seconds=cache.now - held.since), BACKOFF)
            cache.end(id, end.cost_micro, end.clock)
            of[0], of[1], of[2] = of[0] + end.failures, of[1] + end.disruptions, of[2] + end.spot_losses
            if end.again:
                known[id] = replace(
                    job, attempt=attempt, spent_micro=job.spent_micro + end.cost_micro,
                    on_demand_only=on_demand_only(of[2], retries[id]),
                )  # fmt: skip
                book.push(now + end.delay_s, "submit", id, attempt)
        for decision in cache.decisions():
            for start in decision.starts:
                starts.append(_row(now, start))
                book.plan(now, start.job, start.attempt + 1, start.run_limit_s)
            for preempt in decision.preempts:
                book.push(now, "preempted", preempt.job, preempt.attempt)
    return sorted(starts), cache


def _row(now: float, start: Start) -> Row:
    return (
        round(now, 3), start.job, start.attempt + 1, start.offer.pool, start.capacity_type, start.placement,
        start.hold_micro,
    )  # fmt: skip


class Stored:
    """The same on the database: `Dispatcher.round` until nothing follows, at every moment of either side."""

    def __init__(self, db: Database, rows: list[tuple[float, NewJob, float, Outcome]]) -> None:
        self.db, self.rows, self.now = db, rows, BEGAN
        self.queue = Queue(db)
        self.queue.dispatcher.now = lambda: self.now

    async def played(self, moments: list[float]) -> list[Row]:
        """`moments`: when time alone may have brought something about."""
        epoch = await dispatch.lead(self.db, dispatch.ROLE, "test", 3600)
        assert epoch is not None
        book, starts = Book(self.rows), list[Row]()
        given = {job.id: job for _, job, _, _ in self.rows}
        left = sorted(moments)
        while book.events or left:
            now = min(book.events[0][0] if book.events else float("inf"), left[0] if left else float("inf"))
            left = [moment for moment in left if moment > now + 1e-9]
            self.now = BEGAN + timedelta(seconds=now)
            while book.events and book.events[0][0] <= now + 1e-9:
                _, _, what, id, attempt = heapq.heappop(book.events)
                if what == "submit":
                    await jobs.submit(self.db, [given[id]], now=self.now)
                    continue
                job = await jobs.job(self.db, id)
                assert job is not None
                if what == "wakes" or job.state.final or job.attempt != attempt or job.started_at is None:
                    continue
                ended = await attempts.finish(self.db, id, attempt, Outcome(what), self.now, BACKOFF)
                assert ended is not None
                if ended.not_before is not None:  # a round then finds it
                    book.push((ended.not_before - BEGAN).total_seconds(), "wakes", id, attempt)
            while True:
                decided = await self.queue.dispatcher.round(epoch)
                for job in await attempts.take(self.db, "executor", 1000, 3600, self.now):
                    await attempts.record_start(self.db, job.id, job.attempt, self.now)
                    row = (
                        round(now, 3), job.id, job.attempt, str(job.pool), str(job.capacity_type),
                        job.placement, job.hold_micro or 0,
                    )  # fmt: skip
                    starts.append(row)
                    book.plan(now, job.id, job.attempt, job.run_limit_s or 0)
                for asked in await attempts.heartbeat(
                    self.db, "executor", {(row[1], row[2]): 0.0 for row in starts}, 3600, self.now
                ):
                    if asked.preempted:
                        book.push(now, "preempted", asked.job, asked.attempt)
                if not decided.more:
                    break
        return sorted(starts)


@pytest.mark.parametrize("seed", range(3))
def test_the_dispatcher_and_rounds_in_memory_do_the_same(database: Any, seed: int) -> None:
    rows = load(seed, 60)
    ours, cache = in_memory(rows)
    began = BEGAN.timestamp()
    # Not before, or with, an event: at these moments only time has passed.
    rules = cache.supply.rules
    moments = [at + rules.reserve_after_s for at, *_ in rows]
    moments += [start[0] + rules.minimum_runtime_s for start in ours]

    async def scenario(db: Database) -> None:
        await opened(db)
        stored = Stored(db, rows)
        theirs = await stored.played(moments)
        assert theirs == ours
        seen = await take_snapshot(db, stored.now, 1)
        clocks = {key: clock for key, clock in cache.clocks.items() if clock}
        assert {key: clock for key, clock in seen.clocks.items() if clock} == pytest.approx(clocks, abs=2)
        for scope, account in cache.budget_usage.items():
            assert seen.budget_usage[scope] == account

    database(scenario)
    assert len(ours) >= 60
    assert began < cache.now


def test_a_lane_that_runs_dry_is_read_on(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "FIRST_OF_LANE", 1)

    async def scenario(db: Database) -> None:
        queue = Queue(db)
        for _ in range(14):
            await queue.submit()
        epoch = await dispatch.lead(db, dispatch.ROLE, "test", 3600)
        assert epoch is not None
        decided = await queue.dispatcher.round(epoch)
        assert decided.started == 14
        assert decided.more
        assert not (await queue.dispatcher.round(epoch)).more

    database(scenario)
