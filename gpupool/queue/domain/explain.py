"""Why a job waits, term by term, and when it may start.

It asks the very round that decides, so that an explanation can't differ from the decision. Projections assume
that everything runs for as long as it may. This module must not decide anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpupool.queue.domain.budget import book
from gpupool.queue.domain.decide import decide, turn
from gpupool.queue.domain.round import Round
from gpupool.queue.domain.state import Queued, Snapshot, held_by
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import MICRO, Decision, Level, Reason, Waiting

MOST_ROUNDS = 100
"""A projection looks at so many ends of running jobs and no further."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One job's place in the order."""

    waiting: Waiting | None
    """None where it would start now."""
    ahead: int
    """Heads of other lanes that go before it, and jobs before it in its own."""
    terms: dict[str, Any]
    """Every term of the order with its numbers."""
    projected_start: float | None
    """Epoch seconds; None where no end of a running job within reach makes room."""


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
    projected = snapshot.now if now else _projection(state, supply, job.job)
    behind = Waiting(Reason.TURN, f"{before} {turn(job)}")
    if before > len(mine):  # there are others before it that the snapshot does not hold
        return Explanation(behind, ahead, terms, None if now else projected)
    waiting = None if now else decision.waits.get(job.job, behind)
    return Explanation(waiting, ahead, terms, projected)


def _terms(opened: Round, job: Queued) -> dict[str, Any]:
    offer, rules = job.offers[0], opened.supply.rules
    rule = opened.rule(job.tenant)
    used = opened.used.get((job.tenant, offer.pool, offer.resource), 0)
    guaranteed = rule.guaranteed.get((offer.pool, offer.resource), 0)
    clocks = {tenant: clock for (pool, tenant), clock in opened.clocks.items() if pool == offer.pool}
    return {
        "ordering": rules.ordering,
        "reserved": opened.reservations.get(offer.pool) == job.job,
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
        "reserved_for": opened.reservations.get(offer.pool),
    }


def _projection(state: Snapshot, supply: Supply, job: str) -> float | None:
    """When `job` starts if each running job takes as long as it may."""
    for _ in range(MOST_ROUNDS):
        decision = decide(state, supply)
        if any(start.job == job for start in decision.starts):
            return state.now
        later = advance(state, decision)
        if later is None:
            return None
        state = later
    return None


def advance(state: Snapshot, decision: Decision) -> Snapshot | None:
    """The state after `decision` and the next end of a running job, if each takes as long as it may. None
    where nothing runs."""
    started = {start.job: start for start in decision.starts}
    waiting = tuple(other for other in state.queued if other.job not in started)
    new = [held_by(other, started[other.job], state.now) for other in state.queued if other.job in started]
    held = [*state.held, *new]
    if not held:
        return None
    soonest = min(max(state.now, other.ends) for other in held)
    accounts = dict(state.accounts)
    for other in new:
        book(accounts, other, spent=0, held=other.hold_micro)
    for other in held:
        if other.ends <= soonest:
            book(accounts, other, spent=other.hold_micro, held=-other.hold_micro)
    return replace(
        state,
        now=soonest,
        held=tuple(other for other in held if other.ends > soonest),
        queued=waiting,
        accounts=accounts,
        reservations=decision.reservations,
        floors=decision.floors,
    )
