"""When jobs that wait may start, if all that runs takes as long as it may and nothing more is submitted.

Rounds are played forward by the very `decide` that decides. That is exact as far as the jobs of the snapshot
reach; for what lies behind it gives a moment before which a job can't start.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from gpupool.queue.domain.budget import book
from gpupool.queue.domain.decide import decide
from gpupool.queue.domain.periods import period_end
from gpupool.queue.domain.state import Queued, Snapshot, held_by
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import Decision, Waiting, WaitReason

WORK = 6_000
"""So many jobs, those that wait and those that run, are looked at in all the rounds of one projection: some
20 ms."""

ROUND_S = 1.0
"""From one round to the next, at most."""

Lane = tuple[str, str]
"""(tenant, lane)"""


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
    waits: Mapping[str, Waiting] | None = None
    last = {(job.tenant, job.lane): job for job in state.queued if (job.tenant, job.lane) in cut}
    ends = {job.job: _may_be_passed(job, supply) for job in last.values()}
    renewed, worked = _renewed(state, supply), 0
    making_room = may_make_room(state, supply)
    missing = set(wanted)
    while state.now < renewed:
        worked += len(state.queued) + len(state.held.jobs)
        decision = decide(state, supply)
        waits = decision.waits if waits is None else waits
        known, ran_out = _known(decision, ends)
        starts.update((start.job, state.now) for start in decision.starts[:known])
        missing.difference_update(starts)
        if not missing or ran_out:
            break
        later = _later(state, supply, decision)
        if decision.owed:
            break  # borrowed jobs are asked to end, and it is not known how long they take to go
        if later is None:
            return Played(starts, waits, None)
        if making_room and any(held.preemptible for held in later.held.jobs.values()):
            break  # they may be asked to at any moment, and it is not known how long they take to go
        state = later
        if worked > WORK:
            break
    return Played(starts, waits or {}, min(state.now, renewed))


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
        if passed and wait is not None and wait.reason is not WaitReason.TURN:
            return 0, True  # the one behind it was tried in this round, it is not known after which starts
    for index, start in enumerate(decision.starts):
        if start.job in ends:
            return index + 1, True
    return len(decision.starts), False


def _later(state: Snapshot, supply: Supply, decision: Decision) -> Snapshot | None:
    """The state after `decision`, at the next moment from which something else may follow: a running job
    ends, as late as it may, the head of a lane has waited so long that capacity is reserved for it, or it is
    seen what follows from starts and reservations of just now. None where none runs: the end of pods that are
    not the queue's is unknown."""
    started = {start.job: start for start in decision.starts}
    held, accounts, clocks = state.held.copy(), dict(state.accounts), dict(state.clocks)
    waiting: list[Queued] = []
    for job in state.queued:
        start = started.get(job.job)
        if start is None:
            waiting.append(job)
            continue
        held.add(held_by(job, start, state.now))
        book(accounts, job, spent=0, held=start.hold_micro)
        key = start.offer.pool, job.tenant
        clocks[key] = max(clocks.get(key, 0), decision.floors.get(key, 0)) + start.charge
    if not held.jobs:
        return None
    after = supply.rules.reserve_after_s
    heads = {(job.tenant, job.lane): job.enqueued + after for job in reversed(waiting)}
    moments = [moment for moment in heads.values() if moment > state.now]
    moments += [state.now + ROUND_S] if started or decision.reservations != state.reservations else []
    soonest = max(state.now, min(*moments, *(other.ends for other in held.jobs.values()), float("inf")))
    for other in [other for other in held.jobs.values() if other.ends <= soonest]:
        book(accounts, other, spent=other.hold_micro, held=-other.hold_micro)
        held.remove(other.job)
    return replace(
        state,
        now=soonest,
        held=held,
        queued=tuple(waiting),
        accounts=accounts,
        clocks=clocks,
        reservations=decision.reservations,
        floors=decision.floors,
    )
