"""Why a job waits, term by term, and when it may start; and the whole queue in its order.

It asks the very round that decides, so that an explanation can't differ from the decision. Projections assume
that everything runs for as long as it may. This module must not decide anything.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Any

from gpupool.queue.domain.budget import book
from gpupool.queue.domain.decide import decide, turn
from gpupool.queue.domain.reasons import of_bound
from gpupool.queue.domain.round import Round
from gpupool.queue.domain.state import Holdings, Queued, Snapshot, held_by
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import MICRO, Decision, Level, Reason, Waiting

MOST_ROUNDS, ROUNDS_OF_ALL = 100, 30
"""A projection looks at so many ends of running jobs and no further: for one job, and for all together."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """One waiting job and what is before it."""

    job: Queued
    ahead: int
    """Heads of other lanes that go before it, and jobs before it in its own."""
    waiting: Waiting | None
    """None where it would start now, and behind other jobs of its lane."""
    projected_start: float | None
    """Epoch seconds; None where it is not within reach."""


@dataclass(frozen=True, slots=True)
class Explanation(Prospect):
    """The same, and why; `waiting` is None only where the job would start now."""

    terms: dict[str, Any]
    """Every term of the order with its numbers."""


def explain(snapshot: Snapshot, supply: Supply, job: Queued, before: int) -> Explanation:
    """Explain `job`. `before`: jobs before it in its own lane that the snapshot may not hold."""
    known = [other for other in snapshot.queued if other.job != job.job]
    lane = [other for other in known if (other.tenant, other.lane) == (job.tenant, job.lane)]
    mine = [other for other in lane if (other.enqueued, other.job) < (job.enqueued, job.job)]
    own = [*mine[:before], job]
    others = [other for other in known if other not in lane]
    state = replace(snapshot, queued=(*others, *own))
    opened = Round.of(state, supply)
    key = opened.key(job)
    ahead = before + sum(
        1
        for (tenant, name), queued in opened.lanes.items()
        if (tenant, name) != (job.tenant, job.lane) and opened.key(queued[0]) < key
    )
    terms = _terms(opened, job)
    decision = decide(state, supply)
    now = any(start.job == job.job for start in decision.starts)
    projected = snapshot.now if now else _starts(state, supply, {job.job}, MOST_ROUNDS).get(job.job)
    behind = Waiting(Reason.TURN, f"{before} {turn(job)}")
    if before > len(mine):  # there are others before it that the snapshot does not hold
        return Explanation(job, ahead, behind, None if now else projected, terms)
    waiting = None if now else decision.waits.get(job.job, behind)
    return Explanation(job, ahead, waiting, projected, terms)


def outlook(snapshot: Snapshot, supply: Supply, most: int) -> tuple[Prospect, ...]:
    """The first `most` jobs that wait, in order."""
    opened = Round.of(snapshot, supply)
    heads = sorted(opened.key(lane[0]) for lane in opened.lanes.values())
    ordered = []
    for lane in opened.lanes.values():
        first = opened.key(lane[0])
        for index, job in enumerate(lane):
            key = opened.key(job)
            ordered.append((index + bisect_left(heads, key) - (first < key), key, job))
    ordered.sort(key=lambda one: one[:2])
    shown = ordered[:most]
    waits = decide(snapshot, supply).waits
    starts = _starts(snapshot, supply, {job.job for _, _, job in shown}, ROUNDS_OF_ALL)
    return tuple(Prospect(job, ahead, waits.get(job.job), starts.get(job.job)) for ahead, _, job in shown)


def _terms(opened: Round, job: Queued) -> dict[str, Any]:
    offer, rules = job.offers[0], opened.supply.rules
    rule = opened.rule(job.tenant)
    used = opened.held.used.get((job.tenant, offer.pool, offer.resource), 0)
    guaranteed = rule.guaranteed.get((offer.pool, offer.resource), 0)
    bounds = opened.reservations.bounds(job)
    holders = [(bound, opened.reservations.holders.get(bound)) for bound in reversed(bounds)]
    bound, holder = next(((bound, other) for bound, other in holders if other), ("", None))
    clocks = {tenant: opened.clock(pool, tenant) for pool, tenant in opened.floors if pool == offer.pool}
    return {
        "ordering": rules.ordering,
        "reserved": holder is not None and holder.job == job.job,
        "guaranteed_share": {"used": used, "guaranteed": guaranteed, "below": opened.below_guarantee(job)},
        "level": {
            "granted": job.level.name.lower(),
            "aged": Level(opened.aged(job)).name.lower(),
            "aging_seconds": rules.aging_s,
            "waited_seconds": round(opened.now - job.enqueued, 1),
        },
        "fair_clock": {
            "gpu_hours": {tenant: round(clock / MICRO / 3600, 3) for tenant, clock in sorted(clocks.items())},
            "weight": rule.weight,
        },
        "reserved_for": holder.job if holder else None,
        "reserved_within": of_bound(bound) if bound else None,
    }


def _starts(state: Snapshot, supply: Supply, wanted: set[str], rounds: int) -> dict[str, float]:
    """When jobs start if each running job takes as long as it may."""
    found: dict[str, float] = {}
    later: Snapshot | None = state
    for _ in range(rounds):
        if later is None or wanted <= found.keys():
            break
        decision = decide(later, supply)
        found.update((start.job, later.now) for start in decision.starts)
        later = _advance(later, decision)
    return found


def _advance(state: Snapshot, decision: Decision) -> Snapshot | None:
    """The state after `decision` and the next end of a running job, if each takes as long as it may. None
    where none runs: the end of pods that are not the queue's is unknown."""
    started = {start.job: start for start in decision.starts}
    waiting = tuple(other for other in state.queued if other.job not in started)
    new = [held_by(other, started[other.job], state.now) for other in state.queued if other.job in started]
    held = [*state.held, *new]
    ends = [max(state.now, other.ends) for other in held if other.of_queue]
    if not ends:
        return None
    soonest = min(ends)
    accounts = dict(state.accounts)
    for other in new:
        book(accounts, other, spent=0, held=other.hold_micro)
    for other in held:
        if other.ends <= soonest:
            book(accounts, other, spent=other.hold_micro, held=-other.hold_micro)
    return replace(
        state,
        now=soonest,
        held=Holdings.of(other for other in held if other.ends > soonest),
        queued=waiting,
        accounts=accounts,
        reservations=decision.reservations,
        floors=decision.floors,
    )
