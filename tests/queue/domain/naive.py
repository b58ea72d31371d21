"""The queue's rounds without anything kept between them, as an oracle for `SchedulerCache`: every round reads
all lanes again, at every moment at which something could happen, and books in plain dictionaries.

And a load for both: who submits what and when, on which pools, and how long it runs, ends or is lost.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import inf, nextafter
from typing import Protocol

from gpupool.queue.domain.attempt_end import Attempt, end_of
from gpupool.queue.domain.decide import decide
from gpupool.queue.domain.lanes import lane_of
from gpupool.queue.domain.periods import period_end
from gpupool.queue.domain.state import BudgetUsage, Held, Holdings, Queued, Snapshot, held_by
from gpupool.queue.domain.supply import Allowance, PoolSupply, Supply, TenantRule
from gpupool.queue.records import Decision, Level, Offer, Outcome
from tests.queue.domain import simulated
from tests.queue.lanes import in_lanes

GPU = simulated.GPU
BEGAN = 1_700_000_000.0
DAY = 86_400.0
Start = tuple[float, str, int, str, tuple[tuple[int, int], ...], bool]


class Rounds(Protocol):
    """What runs a load: `SchedulerCache`, or the oracle."""

    now: float
    held: Holdings

    @property
    def next_moment(self) -> float: ...
    def submit(self, job: Queued) -> None: ...
    def wait_for_node(self, job: str) -> None: ...
    def begin(self, job: str) -> None: ...
    def end(self, job: str, cost_micro: int, clock: int) -> Held: ...
    def advance(self, now: float) -> None: ...
    def decisions(self) -> Iterator[Decision]: ...


@dataclass
class Naive:
    """Reads everything in every round."""

    supply: Supply
    now: float
    held: Holdings = field(default_factory=Holdings)
    queued: list[Queued] = field(default_factory=list)
    budget_usage: dict[str, BudgetUsage] = field(default_factory=dict)
    clocks: dict[tuple[str, str], int] = field(default_factory=dict)
    floors: Mapping[tuple[str, str], int] = field(default_factory=dict)
    reservations: Mapping[str, str] = field(default_factory=dict)
    moments: list[float] = field(default_factory=list)
    decided: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.moments += [node.until for pool in self.supply.pools.values() for node in pool.ending]
        rules = self.supply.tenants.values()
        self.periods = {b.period for rule in rules for b in rule.budgets.values()}
        self.moments += [period_end(period, self.now).timestamp() for period in self.periods]
        heapq.heapify(self.moments)

    @property
    def next_moment(self) -> float:
        while self.moments and self.moments[0] <= self.now:
            heapq.heappop(self.moments)
        return self.moments[0] if self.moments else inf

    def submit(self, job: Queued) -> None:
        self.queued.append(job)
        self.queued.sort(key=lambda job: (job.enqueued, job.job))
        heapq.heappush(self.moments, job.enqueued + self.supply.rules.reserve_after_s)
        for offer in job.offers:
            for node in self.supply.pools[offer.pool].ending:
                heapq.heappush(self.moments, nextafter(node.until - job.timeout_s, inf))

    def wait_for_node(self, job: str) -> None:
        self.held.add(self.held.jobs[job]._replace(started=False))

    def begin(self, job: str) -> None:
        held = self.held.jobs[job]._replace(since=self.now, started=True)
        self.held.add(held)
        for moment in (held.since + self.supply.rules.minimum_runtime_s, held.ends):
            heapq.heappush(self.moments, moment)

    def end(self, job: str, cost_micro: int, clock: int) -> Held:
        held = self.held.jobs[job]
        self.held = Holdings.of(other for other in self.held if other.job != job)
        key = held.pool, held.tenant
        self.clocks[key] = max(0, self.clocks.get(key, 0) + clock)
        rule = self.supply.rule(held.tenant)
        for scope in (held.tenant, f"{held.tenant}/{held.project}"):
            if scope not in rule.budgets:
                continue
            if period_end(rule.budgets[scope].period, self.decided[job]).timestamp() > self.now:
                account = self.budget_usage[scope]
                left = account.held_micro - held.hold_micro
                self.budget_usage[scope] = BudgetUsage(account.spent_micro + cost_micro, left)
        return held

    def advance(self, now: float) -> None:
        for rule in self.supply.tenants.values():
            for scope, allowance in rule.budgets.items():
                if period_end(allowance.period, self.now).timestamp() <= now:
                    self.budget_usage.pop(scope, None)
        for period in self.periods:
            heapq.heappush(self.moments, period_end(period, now).timestamp())
        self.now = now

    def decisions(self) -> Iterator[Decision]:
        while True:
            snapshot = Snapshot(
                self.now, self.held, in_lanes(self.queued), self.budget_usage, self.clocks, self.reservations,
                self.floors,
            )  # fmt: skip
            decision = decide(snapshot, self.supply)
            jobs = {job.job: job for job in self.queued}
            for start in decision.starts:
                job = jobs[start.job]
                self.queued.remove(job)
                held = held_by(job, start, self.now)
                self.held.add(held)
                self.decided[job.job] = self.now
                rule = self.supply.rule(job.tenant)
                for scope in (job.tenant, f"{job.tenant}/{job.project}"):
                    if scope in rule.budgets:
                        account = self.budget_usage.get(scope, BudgetUsage(0, 0))
                        more = account.held_micro + start.hold_micro
                        self.budget_usage[scope] = account._replace(held_micro=more)
                key = start.offer.pool, job.tenant
                floor = decision.floors.get(key, 0)
                self.clocks[key] = max(self.clocks.get(key, 0), floor) + start.charge
                for moment in (held.since + self.supply.rules.minimum_runtime_s, held.ends):
                    heapq.heappush(self.moments, moment)
            for preempt in decision.preempts:
                held = self.held.jobs[preempt.job]
                self.held.add(held._replace(preempting_for=preempt.beneficiary))
            changed = decision.reservations != self.reservations
            self.reservations, self.floors = decision.reservations, decision.floors
            yield decision
            if not decision.starts and not decision.preempts and not changed:
                return


@dataclass
class Load:
    """Jobs with the time at which they are submitted, and what their attempts come to."""

    supply: Supply
    jobs: list[Queued]
    after: dict[str, str]
    """Job -> the one that it comes after."""
    attempts: dict[str, list[tuple[float, Outcome]]]
    """Job -> how long each attempt would run, and how it would end; the last one holds for all further
    ones."""
    grace: float
    """How long a job that is asked to end takes."""
    backoff: tuple[float, float] = (30.0, 300.0)
    late: float = 0.0
    """How long each attempt takes to start; it holds its slots meanwhile."""


def play(load: Load, rounds: Rounds) -> list[Start]:
    """Every start of a load: time, job, attempt, pool, place, and whether it is borrowed."""
    starts: list[Start] = []
    events: list[tuple[float, int, str, str, int]] = []
    jobs = {job.job: job for job in load.jobs}
    next_of: dict[str, list[str]] = {}
    for job, parent in load.after.items():
        next_of.setdefault(parent, []).append(job)
    number = 0

    def push(at: float, what: str, job: str, attempt: int) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (at, number, what, job, attempt))

    for queued in load.jobs:
        if queued.job not in load.after:
            push(queued.enqueued, "submit", queued.job, 0)
    numbers: dict[str, list[int]] = {
        job: [0, 0, 0, 0] for job in jobs
    }  # failures, disruptions, losses, spent
    outcomes: dict[tuple[str, int], Outcome] = {}

    def ended(held: Held, outcome: Outcome) -> None:
        job, of = jobs[held.job], numbers[held.job]
        ran = rounds.now - held.since
        attempt = Attempt(
            started=held.started, capacity_type=held.capacity_type, rate_micro=rate(held),
            gpu_micro=held.gpu_micro,
            hold_micro=held.hold_micro, run_limit_s=held.run_limit_s, retries=1, failures=of[0],
            weight=rounds.supply.rule(held.tenant).weight, disruptions=of[1], unstarted=0,  # type: ignore[attr-defined]
            budget_limit_micro=job.budget_limit_micro, spent_micro=of[3],
            stopping=held.preempting_for is not None,
        )  # fmt: skip
        end = end_of(attempt, outcome, timedelta(seconds=ran), load.backoff)
        rounds.end(held.job, end.cost_micro, end.clock)
        of[0] += end.failures
        of[1] += end.disruptions
        of[2] += end.spot_losses
        of[3] += end.cost_micro
        if end.again:
            jobs[held.job] = replace(
                job, attempt=held.attempt, spent_micro=of[3], on_demand_only=of[2] >= 3
            )  # fmt: skip
            push(rounds.now + end.delay_s, "submit", held.job, held.attempt)
        else:
            for later in next_of.get(held.job, ()):
                jobs[later] = replace(jobs[later], enqueued=max(jobs[later].enqueued, rounds.now))
                push(jobs[later].enqueued, "submit", later, 0)

    def rate(held: Held) -> int:
        offers = [offer for offer in jobs[held.job].offers if offer.pool == held.pool]
        return offers[0].rate(held.capacity_type)

    while events or rounds.next_moment < inf:
        soonest = min(events[0][0] if events else inf, rounds.next_moment)
        if not events and not rounds.held.jobs and soonest > BEGAN + 40 * DAY:
            break
        rounds.advance(soonest)
        while events and events[0][0] <= rounds.now:
            _, _, what, id, attempt = heapq.heappop(events)
            if what == "submit":
                rounds.submit(jobs[id])
                continue
            held = rounds.held.jobs.get(id)
            if held is None or held.attempt != attempt:
                continue
            if what == "begin":
                rounds.begin(id)
                continue
            ended(held, Outcome("preempted") if what == "asked" else outcomes[id, attempt])
        for decision in rounds.decisions():
            for start in decision.starts:
                held = rounds.held.jobs[start.job]
                attempt, planned = held.attempt, load.attempts[start.job]
                runs, outcome = planned[min(attempt, len(planned)) - 1]
                if runs > held.run_limit_s:
                    runs, outcome = held.run_limit_s, Outcome("timeout")
                outcomes[start.job, attempt] = outcome
                if load.late:
                    rounds.wait_for_node(start.job)
                    push(rounds.now + load.late, "begin", start.job, attempt)
                push(rounds.now + load.late + runs, "end", start.job, attempt)
                starts.append(
                    (rounds.now, start.job, attempt, start.offer.pool, start.placement, start.borrowed)
                )
            for preempt in decision.preempts:
                attempt = rounds.held.jobs[preempt.job].attempt
                push(rounds.now + load.grace, "asked", preempt.job, attempt)
    return sorted(starts)


def made(seed: int, jobs: int = 60) -> Load:
    """A random load on random pools, tenants and rules."""
    rng = random.Random(seed)
    pools = [_pool(rng, name) for name in "xyz"[: rng.randint(1, 3)]]
    named = {pool.name: pool for pool in pools}
    rules = [_tenant(rng, name, pools) for name in "abcd"[: rng.randint(1, 4)]]
    settings = {
        "ordering": rng.choice(["fair-share", "fair-share", "fair-share", "priority", "fifo"]),
        "aging_s": rng.choice([300, 1800]),
        "reserve_after_s": rng.choice([0, 60, 600]),
        "minimum_runtime_s": rng.choice([1, 60, 400]),
    }
    supply = simulated.supply(pools, rules, **settings)
    at, load = (
        BEGAN + DAY * 0.99,
        Load(supply, [], {}, {}, rng.choice([0.0, 5.0]), late=rng.choice([0.0, 90.0])),
    )
    for number in range(jobs):
        at += rng.choice([0, 0, 1, rng.expovariate(1 / 120)])
        tenant = rng.choice(rules)
        job = _job(rng, f"j{number:04}", at, tenant, pools, named)
        load.jobs.append(job)
        if rng.random() < 0.1 and number:
            load.after[job.job] = f"j{rng.randrange(number):04}"
        endings = []
        for _ in range(rng.randint(1, 3)):
            outcome = rng.choice(["succeeded"] * 6 + ["failed", "disrupted"])
            endings.append((round(job.timeout_s * rng.choice([0.2, 0.7, 1.0, 1.3]), 3), Outcome(outcome)))
        if endings[-1][1].kind == "disrupted":
            endings.append((10.0, Outcome("succeeded")))
        load.attempts[job.job] = endings
    return load


def _pool(rng: random.Random, name: str) -> PoolSupply:
    nodes, slots = rng.randint(1, 3), rng.choice([1, 2, 4])
    spot = rng.choice([0, 0, 1, nodes])
    reserved = [
        rng.choice([inf, BEGAN + DAY + rng.randint(0, 9000)]) for _ in range(rng.choice([0, 0, 0, 1, 2]))
    ]
    whole = rng.random() < 0.7
    return simulated.pool(
        name, max(nodes, spot + len(reserved)), slots, whole, spot, rng.choice([0.3, 0.7]), tuple(reserved)
    )


def _tenant(rng: random.Random, name: str, pools: list[PoolSupply]) -> TenantRule:
    keys = [(pool.name, GPU) for pool in pools]
    grants = {key: rng.choice([1, 2, 4, 100]) for key in keys if rng.random() < 0.9} or {keys[0]: 2}
    up_to = {key: units + rng.randint(1, 6) for key, units in grants.items() if rng.random() < 0.3}
    budgets = {}
    for scope in (name, f"{name}/p"):
        if rng.random() < 0.3:
            limit = rng.choice([2_000, 200_000, 3_000_000])
            exhausted = rng.choice(["wait", "preempt"])
            budgets[scope] = Allowance(limit, limit // 10, rng.choice(["day", "month"]), exhausted)
    guaranteed = {key: rng.randint(0, units) for key, units in grants.items()}
    return TenantRule(
        name, rng.choice([1.0, 2.0]), rng.choice([None, None, 1, 3]), grants, guaranteed, budgets, up_to
    )


def _job(
    rng: random.Random, id: str, at: float, tenant: TenantRule, pools: list[PoolSupply],
    named: Mapping[str, PoolSupply],
) -> Queued:  # fmt: skip
    first = named[rng.choice(sorted({pool for pool, _ in tenant.grants}))]
    size = first.nodes[0].slots[GPU]
    whole = first.gpu_micro[GPU] == 1_000_000
    units = rng.choice([1, 1, min(2, size), size, size * 2 if whole else size])
    offers: list[Offer] = [simulated.offer(first, units, alone=not whole and rng.random() < 0.2)]
    if rng.random() < 0.3:
        offers += [simulated.offer(pool, 1) for pool in pools if pool is not first]
    project = rng.choice([None, "p"])
    level = rng.choice(list(Level))
    preemptible, preempts = rng.random() < 0.5, rng.random() < 0.2
    lane = lane_of(tuple(offers), level, project, preemptible, preempts)
    budget = rng.choice([None, None, None, 5_000, 500_000])
    timeout = rng.choice([30, 300, 300, 1800, 5000])
    return Queued(
        id, 0, tenant.name, project, lane, level, at, tuple(offers), timeout, budget, 0, preemptible, preempts
    )


def fresh(load: Load) -> Snapshot:
    """With nothing in it yet."""
    return Snapshot(BEGAN + DAY * 0.99, Holdings(), {})


def text(start: Start) -> str:
    """One start, as a person compares it."""
    return f"{datetime.fromtimestamp(start[0], UTC):%d %H:%M:%S.%f} {start[1:]}"
