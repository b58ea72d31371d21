"""What a round decides: which waiting jobs start now, where, and why the others don't; which running jobs are
preempted, and what is reserved for which job.

Inside a lane (one project, like jobs) it is first in, first out, but for jobs that the budget does not pay
for. A job that does not fit is passed over, and after `reserve_after` its pool is reserved for it. This
module must not know where snapshots come from.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from gpupool.queue.domain import budget, preemption, refusals
from gpupool.queue.domain.lanes import Reading
from gpupool.queue.domain.round import Key, Round
from gpupool.queue.domain.state import Held, Lane, Queued, Snapshot
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import Decision, Offer, Waiting, WaitReason

MOST_PASSED = 256
"""A round passes over so many jobs of a lane at most: each of them waits for itself alone."""


def decide(snapshot: Snapshot, supply: Supply) -> Decision:
    """What this round starts, preempts and reserves, and why each other head waits."""
    round = Round.of(snapshot, supply)
    return run(round, snapshot.lanes)


def run(
    round: Round, lanes: Iterable[Lane], changed: Callable[[Round], Iterable[tuple[Key, Lane]]] | None = None
) -> Decision:
    """Go through these lanes of a round. `changed`: lanes that what was just done is of use to, where the
    round began without them, with their keys when it began; they take their place in the order, if that is
    not past."""
    lanes = [*lanes]
    reading = {name: Reading(round.lanes[name]) for name in lanes}
    # Of a single lane it shows by itself.
    names = [name for name in lanes if len(lanes) == 1 or not _stays(round, reading[name])]
    heads = sorted(((round.key(reading[name].head), name) for name in names), reverse=True)
    later: list[tuple[Key, Lane]] = []
    """A heap of those that starts have moved back, or that follow one that has left its lane."""
    while heads or later:
        key, name = heapq.heappop(later) if not heads or (later and later[0] < heads[-1]) else heads.pop()
        lane = reading[name]
        head = lane.head
        if round.changed(head) and _stays(round, lane):
            continue
        # What has started since may have moved the tenant back; without a start nothing has changed.
        present = round.key(head) if round.starts else key
        if present > key:  # keys only ever grow within a round, so the order stays right
            heapq.heappush(later, (present, name))
            continue
        waits = round.start(head)
        goes_on = not waits
        if waits:
            waiting = round.waits[head.job] = _follows(round, lane, waits)
            lane.passed += 1
            goes_on = lane.passed < MOST_PASSED and _each_for_itself(head, (waiting, *waits))
        if changed is not None:
            for place in changed(round):
                other = place[1]
                if other not in reading and place > (key, name):
                    reading[other] = Reading(round.lanes[other])
                    if not _stays(round, reading[other]):
                        heapq.heappush(later, (round.key(reading[other].head), other))
        if not goes_on:
            _not_reached(round, lane)
            continue
        lane.at += 1
        if lane:
            heapq.heappush(later, (round.key(lane.head), name))
        else:
            round.exhausted.add(name)
    round.visited.update(reading)
    reservations = {bound: job.job for bound, job in round.reservations.holders.items()}
    return Decision(
        tuple(round.starts), tuple(round.preempts), round.waits, reservations, round.floors,
        frozenset(round.reclaiming), frozenset(round.exhausted),
    )  # fmt: skip


def _each_for_itself(head: Queued, waits: tuple[Waiting, ...]) -> bool:
    """Whether others of the lane may wait for something else: they may cost less, or may be on spot."""
    return head.on_demand_only or any(waiting.reason in _OF_ITS_OWN for waiting in waits)


_OF_ITS_OWN = {WaitReason.BUDGET, WaitReason.UNSCHEDULABLE}
"""What depends on more of a job than jobs of a lane have in common."""


def queued_behind(job: Queued) -> str:
    """Why a job waits that no round has processed."""
    return f"jobs of {job.tenant} with the same request go first"


def _stays(round: Round, lane: Reading) -> bool:
    """Whether the lane waits in this round whatever others do, and nothing follows from it: then it needs no
    place in the order. So it is with nearly all lanes where pools are full, or tenants have what they may."""
    head = lane.head
    if head.preempts or round.may_reclaim(head, head.offers[0]):
        return False
    waits = round.out_of_reach(head)
    if not waits or _each_for_itself(head, waits) or _to_reserve(round, head, waits[0]):
        return False
    for offer in head.offers:
        if round.possible.unaffordable(head, offer):  # others of the lane may cost less
            return False
    round.waits[head.job] = _first_possible(waits)
    round.stayed.add((head.tenant, head.lane))
    _not_reached(round, lane)
    return True


def _to_reserve(round: Round, job: Queued, waiting: Waiting) -> tuple[str, ...]:
    """What to reserve for a job that has waited for `reserveAfter`; empty if it or another job holds that.
    Nodes are reserved only for jobs that their tenant's limits let start; later jobs of the tenant may pass
    them if they end before the reserved job starts."""
    if round.now - job.enqueued < round.supply.rules.reserve_after_s or waiting.reason not in _FREED:
        return ()
    bounds, reservations = round.reservations.bounds(job), round.reservations
    if waiting.reason is WaitReason.TENANT_LIMIT or round.borrows(job, job.offers[0]):
        bounds = bounds[: 2 if round.running_limit(job) and len(bounds) > 2 else 1]
    return bounds if reservations.free(bounds, job) and round.possible.attainable(job) else ()


_FREED = {
    WaitReason.CAPACITY,
    WaitReason.TENANT_LIMIT,
    WaitReason.EXCLUSIVE,
    WaitReason.RESERVATION,
    WaitReason.SPOT_SHARE,
}
"""What the end of other jobs brings."""


_ROOM = {WaitReason.CAPACITY, WaitReason.EXCLUSIVE, WaitReason.SPOT_SHARE}
"""What the end of borrowed jobs brings."""


def _first_possible(waits: tuple[Waiting, ...]) -> Waiting:
    """What a job is said to wait for: its first offer, of those that are possible at all."""
    possible = (waiting for waiting in waits if waiting.reason is not WaitReason.UNSCHEDULABLE)
    return next(possible, waits[0])


def _follows(round: Round, lane: Reading, waits: tuple[Waiting, ...]) -> Waiting:
    """What follows if a lane's head does not start: its tenant reclaims its grant, it preempts, or capacity
    is reserved for it. `waits`: why each of its offers is impossible."""
    job, waiting = lane.head, waits[0]
    if waiting.reason is WaitReason.BUDGET and _preempted_for_money(round, job):
        return waiting
    if waiting.reason not in _FREED:
        return _first_possible(waits)
    offer = job.offers[0]
    ending = _reclaim(round, lane) if waiting.reason in _ROOM else None
    if ending is not None:
        waiting = refusals.reclaiming(waiting, job.tenant, ending)
    to_reserve = _to_reserve(round, job, waiting)
    preempts = job.preempts and ending is None
    if not to_reserve and not preempts:
        return waiting
    if (unpaid := round.unpaid(job, offer)) is not None:  # what others give up would be of no use to it
        return unpaid
    if preempts and _may_take(round, job) and not round.held.pending_preemptions.get(job.job):
        taken = _victims(round, job, offer)
        if taken:
            round.preempt(job, taken)
            return refusals.preempting(waiting, len(taken))
    round.reservations.give(to_reserve, job)
    return waiting


def _reclaim(round: Round, lane: Reading) -> int | None:
    """Preempt borrowed jobs for all jobs of a lane within their tenant's grant, so that they need not wait
    for each other; return the number for the head."""
    head = lane.head
    offer = head.offers[0]
    ending = round.reclaim(head, offer)
    if ending is None:
        return None
    if all(round.reclaim(job, offer) is not None for job in lane.behind()):
        round.exhausted.add((head.tenant, head.lane))
    return ending


def _may_take(round: Round, job: Queued) -> bool:
    """Whether nothing that bounds the job is kept for another of its level or a higher one."""
    return all(holder.level < job.level for _, holder in round.reservations.against(job, job.offers[0].pool))


def _victims(round: Round, job: Queued, offer: Offer) -> tuple[Held, ...]:
    """The running jobs without which `job` starts; empty where that can't be."""
    lacking = round.shortfall(job, offer)
    present = round.reach(job, offer)
    possible = round.supply.pools[offer.pool].types_for(job.may_be_on_spot)
    # Which of them the spot share wants may change with the victims.
    for types in (present.types, possible - present.types):
        reach = present._replace(types=types)
        taken = preemption.victims(
            job, offer, reach, round.slots, round.held, round.now, lacking,
            round.supply.rules.minimum_runtime_s,
        )  # fmt: skip
        if taken and round.without(taken).would_start(job, offer):
            return taken
    return ()


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
        leaving = any(held.preempting_for is not None for held in own)
        if leaving or any(round.reservations.against(job, offer.pool)):
            return False
        narrow = [held for held in own if set(scopes) <= set(budget.scopes(held.tenant, held.project))]
        missing = budget.missing(job, needed.micro, rule, round.budget_usage)
        least = round.supply.rules.minimum_runtime_s
        taken = preemption.for_money(job, missing, narrow, round.now, least)
        if not taken:
            return False
        round.preempt(job, taken)
    round.hold(job, needed.micro)
    return True


def _not_reached(round: Round, lane: Reading) -> None:
    """What an earlier round wrote of jobs that this one does not look at holds no longer."""
    for job in lane.behind() if round.written else ():
        if job.job in round.written:
            round.waits[job.job] = Waiting(WaitReason.QUEUED, queued_behind(job))
