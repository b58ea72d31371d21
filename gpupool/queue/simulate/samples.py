"""What is looked at once an hour of a simulation: how far tenants' fair clocks are apart, and how much of
what is free is of no use to the jobs that a pool gets.

Fairness is as start-time fair queueing promises it (`gpupool.queue.domain.fairness`): between two tenants
that both have work, no more than one of each one's largest jobs. Levels, reservations and grants come before
the clocks, so a distance beyond the bound is no error of the queue by itself.

Fragmentation is the measure of FGD (Weng and others, ATC 2023) on our slots: of all that is free, the share
that a typical job can't use, where typical jobs are the trace's own, by their GPU time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpupool.queue.domain.placement import Slots
from gpupool.queue.domain.scheduler_cache import SchedulerCache
from gpupool.queue.domain.state import Queued
from gpupool.queue.records import MICRO

INTERVAL_S = 3600.0
Kind = tuple[str, int]
"""(resource, units) that a job asks for."""


@dataclass(slots=True)
class Samples:
    """Of one run."""

    distance: float = 0.0
    """The largest distance of two clocks, GPU hours for a weight of 1."""
    bound: float = 0.0
    """What was promised for these two."""
    wasted: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Pool -> free GPUs that a typical job could not use, added up."""
    free: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Pool -> free GPUs, added up."""
    _typical: dict[str, Counter[Kind]] = field(default_factory=lambda: defaultdict(Counter))
    _largest: dict[tuple[str, str], int] = field(default_factory=dict)
    """(pool, tenant) -> how far its largest job moves its clock."""
    _next: float = 0.0

    def arrived(self, job: Queued, weight: float, gpu_seconds: float) -> None:
        """A job of the trace, and how much it runs."""
        offer = job.offers[0]
        self._typical[offer.pool][offer.resource, offer.units] += max(1, round(gpu_seconds))
        key, charge = (offer.pool, job.tenant), round(offer.gpu_micro * job.timeout_s / weight)
        self._largest[key] = max(charge, self._largest.get(key, 0))

    def inspect(self, cache: SchedulerCache) -> None:
        """Look at a moment, unless an hour has not passed since."""
        if cache.now < self._next:
            return
        self._next = cache.now + INTERVAL_S
        for name in cache.supply.pools:
            free, wasted = fragmentation(cache.slots, name, self._typical.get(name, {}))
            self.free[name] += free
            self.wasted[name] += wasted
        self._distances(cache)

    def _distances(self, cache: SchedulerCache) -> None:
        waiting: dict[str, dict[str, int]] = defaultdict(dict)
        for (tenant, _), jobs in cache.lanes.items():
            offer, rule = jobs[0].offers[0], cache.supply.rule(tenant)
            key = offer.pool, offer.resource
            used = cache.held.used.get((tenant, *key), 0)
            running = cache.held.running.get(tenant, 0)
            limited = rule.running is not None and running >= rule.running
            if not limited and used + offer.units <= rule.grants.get(key, 0):  # its own limits let it start
                clock = cache.clocks.get((offer.pool, tenant), 0)
                waiting[offer.pool][tenant] = max(clock, cache.floors.get((offer.pool, tenant), 0))
        for pool, clocks in waiting.items():
            first, last = min(clocks, key=clocks.__getitem__), max(clocks, key=clocks.__getitem__)
            distance = (clocks[last] - clocks[first]) / MICRO / 3600
            if distance > self.distance:
                largest = self._largest[pool, first] + self._largest[pool, last]
                self.distance, self.bound = distance, largest / MICRO / 3600


def fragmentation(slots: Slots, pool: str, typical: Mapping[Kind, int]) -> tuple[float, float]:
    """(free GPUs of a pool, those of them that a typical job can't use)."""
    supply, total = slots.pools[pool], sum(typical.values())
    free = wasted = 0.0
    for number in range(len(supply.nodes)):
        units = {name: max(0, slots.free[pool, name][number]) for name in supply.gpu_micro}
        here = sum(count * supply.gpu_micro[name] for name, count in units.items()) / MICRO
        free += here
        if not here or not total:
            continue
        for (resource, needed), weight in typical.items():
            needed = min(needed, slots.total(pool, resource))  # what spans nodes takes whole ones
            usable = (
                units[resource] * supply.gpu_micro[resource] / MICRO if units[resource] >= needed else 0.0
            )
            wasted += (here - usable) * weight / total
    return free, wasted
