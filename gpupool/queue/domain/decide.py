"""What a round decides: which of the jobs that wait start now, where, and why the others don't; which running
jobs give way, and for which job a pool is reserved.

Inside a lane (one project, like jobs) it is first in, first out, but for jobs that the budget does not pay
for. A job that does not fit is passed over, and after `reserve_after` its pool is reserved for it. This
module must not know where snapshots come from.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import replace
from itertools import islice

from gpupool.queue.domain import budget, preemption
from gpupool.queue.domain.round import Key, Round
from gpupool.queue.domain.state import Held, Queued, Snapshot
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import Decision, Preempt, Reason, Waiting


def decide(snapshot: Snapshot, supply: Supply) -> Decision:
    """What this round starts, preempts and reserves, and why each other head waits."""
    round = Round.of(snapshot, supply)
    lanes = [name for name, lane in round.lanes.items() if not _stays(round, lane)]
    heads = sorted(((round.key(round.lanes[name][0]), name) for name in lanes), reverse=True)
    later: list[tuple[Key, tuple[str, str]]] = []
    """A heap of those that starts have moved back, or that follow one that has left its lane."""
    while heads or later:
        key, name = heapq.heappop(later) if not heads or (later and later[0] < heads[-1]) else heads.pop()
        lane = round.lanes[name]
        head = lane[0]
        if round.starts and _stays(round, lane):
            continue
        # What has started since may have moved the tenant back; without a start nothing has changed.
        present = round.key(head) if round.starts else key
        if present > key:  # keys only ever grow within a round, so the order stays right
            heapq.heappush(later, (present, name))
            continue
        refusals = round.start(head)
        if refusals:
            waiting = round.waits[head.job] = _follows(round, head, refusals[0])
            # Others of its lane would wait for the same, unless they cost less or may be on spot.
            reasons = {waiting.reason, *(one.reason for one in refusals)}
            if not head.on_demand_only and Reason.BUDGET not in reasons:
                _not_reached(round, lane)
                continue
        lane.popleft()
        if lane:
            heapq.heappush(later, (round.key(lane[0]), name))
    reservations = {pool: job.job for pool, job in round.reserved.items()}
    return Decision(tuple(round.starts), tuple(round.preempts), round.waits, reservations, round.floors)


def turn(job: Queued) -> str:
    """Why a job waits that no round has looked at."""
    return f"jobs of {job.tenant} with the same request go first"


def _stays(round: Round, lane: deque[Queued]) -> bool:
    """Whether the lane waits in this round whatever others do, and nothing follows from it: then it needs no
    place in the order. So it is with nearly all lanes where pools are full."""
    head = lane[0]
    if head.preempts or head.on_demand_only or any(job.job == head.job for job in round.reserved.values()):
        return False
    refusals = round.out_of_reach(head)
    if not refusals or (refusals[0].reason is not Reason.TENANT_LIMIT and _due(round, head)):
        return False
    round.waits[head.job] = refusals[0]
    _not_reached(round, lane)
    return True


def _due(round: Round, job: Queued) -> bool:
    """Whether the first pool of a job that does not fit is to be reserved for it."""
    waited = round.now - job.enqueued >= round.supply.rules.reserve_after_s
    return waited and job.offers[0].pool not in round.reserved


def _follows(round: Round, job: Queued, waiting: Waiting) -> Waiting:
    """What follows from a head's waiting: it preempts, or its pool is reserved for it."""
    if waiting.reason is Reason.BUDGET and _preempted_for_money(round, job):
        return waiting
    if waiting.reason not in (Reason.CAPACITY, Reason.EXCLUSIVE, Reason.RESERVATION, Reason.SPOT_SHARE):
        round.unreserve(job)
        return waiting
    offer = job.offers[0]
    holder = round.reserved.get(offer.pool)
    due = _due(round, job)
    if not (due or job.preempts or (holder is not None and holder.job == job.job)):
        return waiting
    wanted = round.capacity_types(job, offer)
    payment = round.payment(job, offer, "spot" if "spot" in wanted else "on-demand")
    if isinstance(payment, Waiting):  # what others gave up for it would be of no use to it
        round.unreserve(job)
        return payment
    if job.preempts and not any(held.preempting_for == job.job for held in round.held):
        taken = preemption.victims(job, offer, wanted, round.slots, round.held, round.now)
        if taken and (holder is None or holder.job == job.job or holder.level < job.level):
            _preempt(round, job, taken)
            round.reserve(job)
            return Waiting(waiting.reason, f"{waiting.detail}; {len(taken)} running jobs make room")
    if due:
        round.reserve(job)
    return waiting


def _preempted_for_money(round: Round, job: Queued) -> bool:
    """Whether jobs of the same budget and a lower level give back what they hold, where the file says so:
    to this job, which has a reservation from then on, and not to others before it has started."""
    rule, offer = round.rule(job.tenant), job.offers[0]
    scopes = [scope for scope in budget.scopes(job.tenant, job.project) if scope in rule.budgets]
    taking = all(rule.budgets[scope].on_exhausted == "preempt" for scope in scopes)
    needed = budget.hold(job, offer.rate_micro)
    if not scopes or not taking or isinstance(needed, Waiting):
        return False
    own = [held for held in round.held if held.tenant == job.tenant]
    if not any(held.preempting_for == job.job for held in own):
        holder = round.reserved.get(offer.pool)
        leaving = any(held.preempting_for is not None for held in own)
        if leaving or (holder is not None and holder.job != job.job):
            return False
        narrow = [held for held in own if set(scopes) <= set(budget.scopes(held.tenant, held.project))]
        missing = budget.missing(job, needed.micro, rule, round.accounts)
        taken = preemption.for_money(job, missing, narrow, round.now)
        if not taken:
            return False
        _preempt(round, job, taken)
        round.reserve(job)
    round.hold(job, needed.micro)
    return True


def _preempt(round: Round, job: Queued, taken: tuple[Held, ...]) -> None:
    # Sentences name no jobs: those of another tenant are not for this one's eyes.
    reason = f"preempted for a job of level {job.level.name.lower()}"
    round.preempts += [Preempt(held.job, held.attempt, job.job, reason) for held in taken]
    for held in taken:
        round.held.add(replace(held, preempting_for=job.job))


def _not_reached(round: Round, lane: deque[Queued]) -> None:
    """What an earlier round wrote of jobs that this one does not look at holds no longer."""
    for job in islice(lane, 1, None):
        if job.job in round.written:
            round.waits[job.job] = Waiting(Reason.TURN, turn(job))
