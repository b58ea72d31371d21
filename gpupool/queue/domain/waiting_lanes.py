"""Jobs that wait in memory, by lane, and which lanes a change is of use to.

A change is named by what bounds jobs, as `gpupool.queue.domain.reservations` names it: `pool`, `pool/tenant`,
`/tenant`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gpupool.queue.domain.state import Lane, Queued
from gpupool.queue.domain.supply import TenantRule

Kept = tuple[dict[Lane, list[str]], dict[str, list[str]], dict[str, list[str]]]
"""Bounds by lane, pool and tenant of the jobs that they are kept for."""


@dataclass(slots=True)
class WaitingLanes:
    """No lane is empty."""

    rules: Mapping[str, TenantRule]
    lanes: dict[Lane, deque[Queued]] = field(default_factory=dict)
    jobs: dict[str, Queued] = field(default_factory=dict)
    """Those of all lanes."""
    on_pool: dict[str, dict[Lane, None]] = field(default_factory=dict)
    """Lanes with an offer on the pool."""
    of_tenant: dict[str, dict[Lane, None]] = field(default_factory=dict)
    lending: frozenset[str] = frozenset()
    """Pools of which something may be borrowed."""
    paying: frozenset[str] = frozenset()
    """Tenants whose jobs may take each other's money."""
    _kept_for: dict[str, Queued] = field(default_factory=dict)
    _kept: Kept = field(default_factory=lambda: ({}, {}, {}))
    """Of these holders."""

    def __post_init__(self) -> None:
        rules = self.rules.values()
        self.lending = frozenset(pool for rule in rules for pool, _ in rule.up_to)
        self.paying = frozenset(
            rule.name
            for rule in rules
            if any(allowance.on_exhausted == "preempt" for allowance in rule.budgets.values())
        )

    def add(self, job: Queued) -> int | None:
        """Put a job at its place in its lane, by the time of its submission: its number there; None where it
        has begun the lane."""
        name = job.tenant, job.lane
        self.jobs[job.job] = job
        lane = self.lanes.get(name)
        if lane is None:
            self.lanes[name] = deque((job,))
            self.of_tenant.setdefault(job.tenant, {})[name] = None
            for offer in job.offers:
                self.on_pool.setdefault(offer.pool, {})[name] = None
            return None
        at = len(lane)
        while at and (lane[at - 1].enqueued, lane[at - 1].job) > (job.enqueued, job.job):
            at -= 1
        lane.insert(at, job)
        return at

    def remove(self, job: str) -> tuple[Queued, bool]:
        """The job, which waits no longer, and whether its lane is gone with it."""
        queued = self.jobs.pop(job)
        name = queued.tenant, queued.lane
        lane = self.lanes[name]
        if lane[0] is queued:
            lane.popleft()
        else:
            lane.remove(queued)
        if lane:
            return queued, False
        del self.lanes[name], self.of_tenant[queued.tenant][name]
        for offer in queued.offers:
            self.on_pool[offer.pool].pop(name, None)
        return queued, True

    def concerned(
        self, stirred: Collection[str], lanes: Iterable[Lane], holders: Mapping[str, Queued]
    ) -> dict[Lane, None]:
        """All lanes that may be looked at with another outcome: those given, and what follows from these and
        from bounds that have changed. `holders`: bound -> job that it is kept for."""
        if not stirred and not holders and not self.lending and not self.paying:
            return {name: None for name in lanes if name in self.lanes}
        concerned: dict[Lane, None] = {}
        new, bounds, seen = [*lanes], {*stirred}, set[str]()
        of_lane, of_pool, of_tenant = self._by_holder(holders)
        while new or bounds:
            if bounds:
                pool, _, tenant = bounds.pop().partition("/")
                bound = f"/{tenant}" if tenant else pool  # what a tenant has on a pool bounds it everywhere
                if bound not in seen:
                    seen.add(bound)
                    new += self.of_tenant.get(tenant, ()) if tenant else self.on_pool.get(pool, ())
                    bounds.update(of_tenant.get(tenant, ()) if tenant else of_pool.get(pool, ()))
            for name in new:
                if name in concerned or name not in self.lanes:
                    continue
                concerned[name] = None
                # What one takes back keeps others from borrowing in the same round, and from what ends
                # already; what is to be paid for one keeps others of its tenant from it.
                if self.lending:
                    bounds |= self.lending & {offer.pool for offer in self.lanes[name][0].offers}
                if name[0] in self.paying:
                    bounds.add(f"/{name[0]}")
                bounds.update(of_lane.get(name, ()))
            new.clear()
        return concerned

    def _by_holder(self, holders: Mapping[str, Queued]) -> Kept:
        if self._kept_for != holders:
            self._kept_for, self._kept = dict(holders), ({}, {}, {})
            of_lane, of_pool, of_tenant = self._kept
            for bound, holder in holders.items():
                of_lane.setdefault((holder.tenant, holder.lane), []).append(bound)
                of_pool.setdefault(holder.offers[0].pool, []).append(bound)
                of_tenant.setdefault(holder.tenant, []).append(bound)
        return self._kept
