"""When capacity that is kept for a job is there, so that smaller jobs may pass it without delaying it.

EASY backfill: the reservation names the nodes that will be free first, and jobs that end before that time may
still use them. One per pool. This module must not choose who gets a reservation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpupool.queue.domain.placement import Slots
from gpupool.queue.domain.state import Held
from gpupool.queue.records import Offer, Placement


@dataclass(frozen=True, slots=True)
class Shadow:
    """When and where a reserved job starts, if all that runs takes as long as it may."""

    at: float
    """Epoch seconds; infinity where it never fits."""
    nodes: frozenset[int]

    def allows(self, placement: Placement, ends: float) -> bool:
        """Whether a job there, until then, leaves the reserved job its start."""
        return ends <= self.at or not any(node in self.nodes for node, _ in placement)


def shadow(offer: Offer, types: frozenset[str], slots: Slots, held: Iterable[Held], now: float) -> Shadow:
    """The earliest start of `offer` on nodes of these types. A job that is being preempted counts as gone."""
    count, units = slots.nodes_for(offer)
    leaving: dict[int, list[tuple[float, int]]] = {}
    for job in held:
        if (job.pool, job.resource) == (offer.pool, offer.resource):
            ends = now if job.preempting_for else max(now, job.ends)
            for node, here in job.placement:
                leaving.setdefault(node, []).append((ends, here))
    times = []
    for node, free in slots.nodes_of(offer, types):
        at, available = now, free
        for ends, here in sorted(leaving.get(node, ())):
            if available >= units:
                break
            at, available = ends, available + here
        if available >= units:
            times.append((at, node))
    chosen = sorted(times)[:count]
    if len(chosen) < count:
        return Shadow(float("inf"), frozenset())
    return Shadow(chosen[-1][0], frozenset(node for _, node in chosen))
