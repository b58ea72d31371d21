"""Which running jobs give way to one that may preempt.

Only jobs of a strictly lower granted level, that allow it and have run for a while: ageing does not count, so
no two jobs can ever preempt each other in turns. Of the nodes where that makes room, the one where least is
lost. This module must not decide whether a job may preempt; it says at whose cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gpupool.queue.domain.placement import Reach, Slots
from gpupool.queue.domain.reservations import Shortfall
from gpupool.queue.domain.state import Held, Queued
from gpupool.queue.records import Offer


def victims(
    job: Queued, offer: Offer, reach: Reach, slots: Slots, held: Iterable[Held], now: float,
    lacking: Shortfall, minimum_runtime_s: float,
) -> tuple[Held, ...]:  # fmt: skip
    """The jobs that must go so that `job` fits on nodes in reach and within its tenant's limits, of
    which it lacks so much; empty where no such set exists. Each of them is needed.

    Victims of a node are taken borrowed jobs first, then lowest level first, then the one that has run for
    the shortest time.
    """
    count, units = slots.nodes_for(offer)
    own: list[Held] = []
    by_node: dict[int, list[Held]] = {}
    for other in sorted(held, key=_order):
        if not _may_go(other, job, now, minimum_runtime_s):
            continue
        if (other.pool, other.resource) == (offer.pool, offer.resource):
            for node, _ in other.placement:
                by_node.setdefault(node, []).append(other)
        if other.tenant == job.tenant:
            own.append(other)
    limits = lacking if count == 1 else Shortfall(0, 0)  # those of several nodes together are looked at below
    ways = []
    empty = False
    for free, node in sorted((free, node) for node, free in slots.nodes_of(offer, reach)):
        if free >= units and count == 1:
            if empty:  # as good as the one before it
                continue
            empty = True
        need = _Need(job.tenant, offer, {node: units - free}, limits)
        if (taken := need.met_by([*by_node.get(node, ()), *(own if limits else ())])) is not None:
            highest = max((other.level for other in taken), default=-1)
            ways.append((highest, _lost(taken, now), node, units - free, taken))
    if len(ways) < count:
        return ()
    chosen = sorted(ways, key=lambda way: way[:3])[:count]
    needed = {node: short for _, _, node, short, _ in chosen}
    together = [other for *_, taken in chosen for other in taken]
    taken = _Need(job.tenant, offer, needed, lacking).met_by([*together, *(own if lacking else ())])
    return tuple(taken or ())


@dataclass(frozen=True, slots=True)
class _Need:
    """What has to come free: units on nodes, and of the tenant's limits."""

    tenant: str
    offer: Offer
    nodes: Mapping[int, int]
    lacking: Shortfall

    def met_by(self, candidates: Iterable[Held]) -> list[Held] | None:
        """The first of them that meet it together, without any that is not needed; None where all of them
        don't."""
        taken: dict[str, Held] = {}
        left = iter(candidates)
        while not self._met(taken.values()):
            if (other := next(left, None)) is None:
                return None
            taken[other.job] = other
        # Those that were taken last are spared first, but what frees limits as well as nodes at the very end.
        spared = list(taken.values())[::-1]
        if self.lacking:
            spared.sort(key=lambda other: other.tenant == self.tenant)
        for other in spared:
            rest = {job: held for job, held in taken.items() if job != other.job}
            if self._met(rest.values()):
                taken = rest
        return list(taken.values())

    def _met(self, taken: Collection[Held]) -> bool:
        own = [other for other in taken if other.tenant == self.tenant]
        place = (self.offer.pool, self.offer.resource)
        alike = [other for other in taken if (other.pool, other.resource) == place]
        return (
            len(own) >= self.lacking.jobs
            and sum(other.units for other in alike if other.tenant == self.tenant) >= self.lacking.units
            and all(
                sum(here for other in alike for at, here in other.placement if at == node) >= units
                for node, units in self.nodes.items()
            )
        )


def for_money(
    job: Queued, micro: int, held: Iterable[Held], now: float, minimum_runtime_s: float
) -> tuple[Held, ...]:
    """The jobs that must go so that `micro` of what they hold is free again; empty where that can't be.

    What a job has used by now is not given back.
    """
    taken: list[Held] = []
    for other in sorted(held, key=_order):
        if micro <= 0:
            break
        ran = now - other.since
        if _may_go(other, job, now, minimum_runtime_s) and ran < other.run_limit_s:
            micro -= int(other.hold_micro * (1 - ran / other.run_limit_s))
            taken.append(other)
    return tuple(taken) if micro <= 0 else ()


def _may_go(other: Held, job: Queued, now: float, minimum_runtime_s: float) -> bool:
    return (
        other.preemptible
        and other.preempting_for is None
        and other.level < job.level
        and now - other.since >= minimum_runtime_s
    )


def _order(held: Held) -> tuple[bool, int, float, str]:
    return (not held.borrowed, held.level, -held.since, held.job)


def _lost(taken: Iterable[Held], now: float) -> float:
    """GPU seconds that have been worked and are given up."""
    return sum(other.gpu_micro * (now - other.since) for other in taken)
