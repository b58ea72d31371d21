"""Which slots are free, and where a job goes: the node that it fills best. When capacity that is kept for
one is there, so that smaller jobs may pass it without delaying it.

That is EASY backfill: a reservation, one per pool, names the nodes that will be free first, and jobs that end
before that time may still use them. Counts and nothing else: this module must not know tenants, priorities or
money, or choose who gets a reservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from gpupool.environment.plan.model import RESERVED
from gpupool.queue.domain.state import Held
from gpupool.queue.domain.supply import PoolSupply
from gpupool.queue.records import MICRO, Offer, Placement


class Reach(NamedTuple):
    """The nodes of a pool that a job may be on."""

    types: frozenset[str]
    """Of these capacity types."""
    closed: frozenset[int]
    """But for these nodes."""


@lru_cache(64)
def _reserved_first(types: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(types, key=lambda capacity_type: (capacity_type != RESERVED, capacity_type)))


@dataclass(slots=True)
class Slots:
    """Free units of every node, changed as a round goes on."""

    pools: Mapping[str, PoolSupply]
    free: dict[tuple[str, str], list[int]]
    """(pool, resource) -> free units by number of the node."""
    most: dict[tuple[str, str], int]
    """At least the free units of the freest node: most jobs that don't fit are refused by this alone."""
    sliced: dict[tuple[str, str], int]
    """(pool, resource) of slices -> units of one node, empty."""

    @classmethod
    def of(cls, pools: Mapping[str, PoolSupply], taken: Mapping[tuple[str, str, int], int]) -> Slots:
        """`taken`: (pool, resource, node) -> units."""
        free = {
            (pool.name, resource): [node.slots.get(resource, 0) for node in pool.nodes]
            for pool in pools.values()
            for resource in pool.gpu_micro
        }
        most = {key: max(units, default=0) for key, units in free.items()}
        slots = cls(pools, free, most, {})
        slots.sliced = {
            (name, resource): size
            for name, resource in free
            if (size := slots.total(name, resource)) > 1 and pools[name].gpu_micro[resource] < MICRO
        }
        for (name, resource, node), units in taken.items():
            slots.take(name, resource, ((node, units),))
        return slots

    def take(self, pool: str, resource: str, placement: Placement) -> None:
        """Occupy units. Nodes that the environment file no longer has are left out."""
        free = self.free.get((pool, resource), [])
        for node, units in placement:
            if node < len(free):
                free[node] -= units

    def give(self, pool: str, resource: str, placement: Placement) -> None:
        """Units that are free again."""
        self.take(pool, resource, tuple((node, -units) for node, units in placement))
        self.most[pool, resource] = max(self.free.get((pool, resource), ()), default=0)

    def total(self, pool: str, resource: str) -> int:
        """Units of one node, empty."""
        nodes = self.pools[pool].nodes if pool in self.pools else ()
        return nodes[0].slots.get(resource, 0) if nodes else 0

    def nodes_for(self, offer: Offer) -> tuple[int, int]:
        """(nodes, units on each) that an offer spans: several whole nodes where one does not suffice. What is
        no multiple of a node fits on none, as after a change of the pool's nodes."""
        size = self.total(offer.pool, offer.resource)
        whole = 0 < size < offer.units and offer.units % size == 0
        return (offer.units // size, size) if whole else (1, offer.units)

    def place(self, offer: Offer, reach: Reach, avoid: frozenset[int] = frozenset()) -> Placement | None:
        """Where the offer fits now on nodes in reach, reserved ones first; None where it does not. On those
        of one capacity type only: a job does not span spot and on-demand. `avoid`: nodes that are left out
        besides."""
        key = (offer.pool, offer.resource)
        free = self.free.get(key)
        if not free:
            return None
        count, units = self.nodes_for(offer)
        if units > self.most[key]:
            return None
        nodes = self.pools[offer.pool].nodes
        left_out = reach.closed | avoid
        for capacity_type in _reserved_first(reach.types):
            fitting = [
                (free[node.number], node.number)
                for node in nodes
                if free[node.number] >= units
                and node.capacity_type == capacity_type
                and node.number not in left_out
            ]
            if count == 1 and fitting:
                return ((min(fitting)[1], units),)
            fitting.sort()
            if len(fitting) >= count:
                return tuple(sorted((number, units) for _, number in fitting[:count]))
        if reach.types == self.pools[offer.pool].types and not left_out:
            self.most[key] = max(free)
        return None

    def nodes_of(self, offer: Offer, reach: Reach) -> Iterator[tuple[int, int]]:
        """Number and free units of each node that is in reach."""
        free = self.free.get((offer.pool, offer.resource), [])
        for node in self.pools[offer.pool].nodes if free else ():
            if node.capacity_type in reach.types and node.number not in reach.closed:
                yield node.number, free[node.number]

    def largest_free(self, pool: str, resource: str) -> int:
        return max(self.free.get((pool, resource), ()), default=0)

    def sum_free(self, pool: str, resource: str) -> int:
        return sum(max(0, units) for units in self.free.get((pool, resource), ()))


@dataclass(frozen=True, slots=True)
class Shadow:
    """When and where a reserved job starts, if all that runs takes as long as it may."""

    at: float
    """Epoch seconds; infinity where it never fits."""
    nodes: frozenset[int]

    def allows(self, placement: Placement, ends: float) -> bool:
        """Whether a job there, until then, leaves the reserved job its start."""
        return ends <= self.at or not any(node in self.nodes for node, _ in placement)


def shadow(offer: Offer, reach: Reach, slots: Slots, held: Iterable[Held], now: float) -> Shadow:
    """The earliest start of `offer` on nodes in reach. A job that is being preempted counts as gone."""
    count, units = slots.nodes_for(offer)
    leaving: dict[int, list[tuple[float, int]]] = {}
    for job in held:
        if (job.pool, job.resource) == (offer.pool, offer.resource):
            ends = now if job.preempting_for else max(now, job.ends)
            for node, here in job.placement:
                leaving.setdefault(node, []).append((ends, here))
    times = []
    for node, free in slots.nodes_of(offer, reach):
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
