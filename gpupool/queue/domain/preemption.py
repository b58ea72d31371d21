"""Which running jobs give way to one that may preempt.

Only jobs of a strictly lower granted level, that allow it and have run for a while: ageing does not count, so
no two jobs can ever preempt each other in turns. Of the nodes where that makes room, the one where least is
lost. This module must not decide whether a job may preempt; it says at whose cost.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.queue.domain.placement import Slots
from gpupool.queue.domain.state import Held, Queued
from gpupool.queue.records import Offer

LEAST_RUN_S = 60
"""A job that runs for less is not preempted, so that two jobs can't keep each other from any progress."""


def victims(
    job: Queued, offer: Offer, types: frozenset[str], slots: Slots, held: Iterable[Held], now: float
) -> tuple[Held, ...]:
    """The jobs that must go so that `job` fits on nodes of these types; empty where no such set exists.

    Victims of a node are taken lowest level first, then the one that has run for the shortest time.
    """
    count, units = slots.nodes_for(offer)
    by_node: dict[int, list[Held]] = {}
    for other in held:
        same = (other.pool, other.resource) == (offer.pool, offer.resource)
        if same and _may_go(other, job, now):
            for node, _ in other.placement:
                by_node.setdefault(node, []).append(other)
    ways = []
    for node, available in slots.nodes_of(offer, types):
        taken: list[Held] = []
        for other in sorted(by_node.get(node, ()), key=lambda held: (held.level, -held.since, held.job)):
            if available >= units:
                break
            available += sum(here for at, here in other.placement if at == node)
            taken.append(other)
        if available >= units:
            needed = _without_surplus(taken, node, available - units)
            ways.append(
                (max((other.level for other in needed), default=-1), _lost(needed, now), node, needed)
            )
    if len(ways) < count:
        return ()
    chosen = sorted(ways, key=lambda way: way[:3])[:count]
    return tuple({other.job: other for *_, taken in chosen for other in taken}.values())


def for_money(job: Queued, micro: int, held: Iterable[Held], now: float) -> tuple[Held, ...]:
    """The jobs that must go so that `micro` of what they hold is free again; empty where that can't be.

    What a job has used by now is not given back.
    """
    taken: list[Held] = []
    for other in sorted(held, key=lambda held: (held.level, -held.since, held.job)):
        if micro <= 0:
            break
        ran = now - other.since
        if _may_go(other, job, now) and ran < other.run_limit_s:
            micro -= int(other.hold_micro * (1 - ran / other.run_limit_s))
            taken.append(other)
    return tuple(taken) if micro <= 0 else ()


def _may_go(other: Held, job: Queued, now: float) -> bool:
    return (
        other.preemptible
        and other.preempting_for is None
        and other.level < job.level
        and now - other.since >= LEAST_RUN_S
    )


def _without_surplus(taken: list[Held], node: int, surplus: int) -> list[Held]:
    """`taken` without those, highest level first, that need not go after all."""
    needed = list(taken)
    for other in reversed(taken):
        here = sum(units for at, units in other.placement if at == node)
        if here <= surplus:
            needed.remove(other)
            surplus -= here
    return needed


def _lost(taken: Iterable[Held], now: float) -> float:
    """GPU seconds that have been worked and are given up."""
    return sum(other.gpu_micro * (now - other.since) for other in taken)
