"""When jobs that wait may start, if all that runs takes as long as it may and nothing more is submitted.

Rounds are played forward by the very rules that decide. That is exact as far as the jobs of the snapshot
reach; for what lies behind it gives a moment before which a job can't start.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gpupool.queue.domain.periods import period_end
from gpupool.queue.domain.scheduler_cache import SchedulerCache
from gpupool.queue.domain.state import Lane, Queued, Snapshot
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import Decision, Waiting, WaitReason

WORK = 6_000
"""So many jobs that wait are looked at in all the rounds of one projection: some 20 ms."""
ROUND_WORK = 2
"""What a round costs besides, in jobs."""


@dataclass(frozen=True, slots=True)
class Projection:
    """When a job starts."""

    at: float
    """Epoch seconds."""
    exact: bool
    """It starts then; else no sooner, and nothing is known of when."""


@dataclass(frozen=True, slots=True)
class Played:
    """What rounds that were played forward came to."""

    starts: dict[str, float]
    """Job -> when it starts."""
    waits: Mapping[str, Waiting]
    """Why others don't start in the first round."""
    until: float | None
    """Others don't start before then; None: they never do, as far as the queue's own jobs go."""


def play(state: Snapshot, supply: Supply, wanted: Collection[str], cut: Collection[Lane]) -> Played:
    """Play rounds forward until the `wanted` jobs have started, or enough was worked, or what comes next is
    not known: `state` holds no more jobs of a lane that is `cut`, running jobs may have to make room, or
    a budget period ends."""
    starts: dict[str, float] = {}
    waits: dict[str, Waiting] | None = None
    ends = {
        lane[-1].job: _may_be_passed(lane[-1], supply) for name, lane in state.lanes.items() if name in cut
    }
    renewed, worked = _renewed(state, supply), 0
    making_room = may_make_room(state, supply)
    missing = set(wanted)
    cache = SchedulerCache.of(state, supply)
    running = [(held.ends, held.job) for held in cache.held.jobs.values()]
    heapq.heapify(running)
    while cache.now < renewed and worked <= WORK:
        known = 0
        for decision in cache.decisions():
            worked += ROUND_WORK + len(decision.waits) + len(decision.starts)
            if waits is None:
                waits = dict(decision.waits)
            known, ran_out = _known(decision, ends)
            starts.update((start.job, cache.now) for start in decision.starts[:known])
            missing.difference_update(starts)
            # Borrowed jobs that are asked to end take a time to go that is not known.
            if not missing or ran_out or decision.reclaiming:
                return Played(starts, waits, min(cache.now, renewed))
            for start in decision.starts:
                heapq.heappush(running, (cache.held.jobs[start.job].ends, start.job))
        if not cache.held.jobs:
            return Played(starts, waits or {}, None)  # when pods go that are not the queue's is unknown
        if making_room and any(held.preemptible for held in cache.held.jobs.values()):
            break  # they may be asked to at any moment, and it is not known how long they take to go
        soonest = max(cache.now, min(running[0][0], cache.next_moment))
        if soonest >= renewed:
            return Played(starts, waits or {}, renewed)
        while running and running[0][0] <= soonest:
            _, job = heapq.heappop(running)
            cache.end(job, cache.held.jobs[job].hold_micro, clock=0)
        cache.advance(soonest)
    return Played(starts, waits or {}, min(cache.now, renewed))


def may_make_room(state: Snapshot, supply: Supply) -> bool:
    """Whether a job that waits may take the place or the money of one that runs."""
    rules = (supply.tenants[name] for name in {job.tenant for job in state.queued} & supply.tenants.keys())
    for_money = any(budget.on_exhausted == "preempt" for rule in rules for budget in rule.budgets.values())
    return for_money or any(job.preempts for job in state.queued)


def _renewed(state: Snapshot, supply: Supply) -> float:
    """When the first budget period of a tenant with jobs that wait ends."""
    tenants = {job.tenant for job in state.queued} & supply.tenants.keys()
    periods = {budget.period for name in tenants for budget in supply.tenants[name].budgets.values()}
    return min((period_end(period, state.now).timestamp() for period in periods), default=float("inf"))


def _may_be_passed(job: Queued, supply: Supply) -> bool:
    """Whether the next of its lane may start before it."""
    rule = supply.tenants.get(job.tenant)
    return job.on_demand_only or job.budget_limit_micro is not None or bool(rule and rule.budgets)


def _known(decision: Decision, ends: Mapping[str, bool]) -> tuple[int, bool]:
    """How many of the starts are those of the whole queue, and whether a lane ran out in this round. `ends`:
    the last job that is known of each lane that has more, and whether it may be passed."""
    for job, passed in ends.items():
        wait = decision.waits.get(job)
        if passed and wait is not None and wait.reason is not WaitReason.QUEUED:
            return 0, True  # the one behind it was tried in this round, it is not known after which starts
    for index, start in enumerate(decision.starts):
        if start.job in ends:
            return index + 1, True
    return len(decision.starts), False
