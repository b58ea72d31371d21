"""Usage of grants, and which borrowed jobs are preempted when a tenant reclaims its grant.

A preemptible job may start beyond its tenant's grant (`upTo`) on idle capacity; it is a borrowed job from
then on. A job within its tenant's grant that finds no room reclaims capacity: borrowed jobs are preempted,
only of tenants above their grants, and of each no more than it uses beyond its grant. The job that starts is
within its grant, so it is not reclaimed itself. This module must not decide who may borrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpupool.queue.domain.placement import Reach, Slots
from gpupool.queue.domain.state import Held, Holdings, Queued
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import Offer, Placement

Key = tuple[str, str]
"""(pool, resource)"""


@dataclass(frozen=True, slots=True)
class GrantUsage:
    """A tenant's grant and usage of one resource of a pool, in units."""

    tenant: str
    pool: str
    resource: str
    granted: int
    up_to: int
    """The grant plus what the tenant may borrow."""
    held: int
    lending: int
    """Units of the idle part of the grant that other tenants have borrowed."""

    @property
    def borrowed(self) -> int:
        """Units in use beyond the grant."""
        return max(0, self.held - self.granted)


def grant_usages(supply: Supply, held: Holdings) -> list[GrantUsage]:
    """One row for each tenant and granted resource. Capacity that is granted to nobody is borrowed first; of
    the rest, each tenant lends in proportion to its idle grant."""
    rows = []
    for name, pool in supply.pools.items():
        for resource in pool.gpu_micro:
            key = name, resource
            granted = {rule.name: rule.grants[key] for rule in supply.tenants.values() if key in rule.grants}
            used = {tenant: held.used.get((tenant, *key), 0) for tenant in granted}
            idle = {tenant: max(0, granted[tenant] - used[tenant]) for tenant in granted}
            borrowed = sum(max(0, used[tenant] - granted[tenant]) for tenant in granted)
            free = max(0, pool.slots(resource) - sum(granted.values()))
            lending = _split(min(max(0, borrowed - free), sum(idle.values())), idle)
            for tenant, units in granted.items():
                most = supply.tenants[tenant].up_to.get(key, units)
                rows.append(GrantUsage(tenant, *key, units, most, used[tenant], lending[tenant]))
    return rows


def _split(units: int, idle: Mapping[str, int]) -> dict[str, int]:
    """Split whole units in proportion; the remainder goes to the tenants with the most idle units."""
    total = sum(idle.values())
    parts = {tenant: units * there // total if total else 0 for tenant, there in idle.items()}
    rest = units - sum(parts.values())
    for tenant in sorted(idle, key=lambda tenant: (-(idle[tenant] - parts[tenant]), tenant))[:rest]:
        parts[tenant] += 1
    return parts


@dataclass(slots=True)
class Reclaims:
    """What the jobs of one round reclaim, one after the other."""

    supply: Supply
    now: float
    slots: Slots
    """Free slots once preempted jobs have ended and reclaiming jobs have started."""
    held: Holdings
    taking: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """(tenant, pool, resource) -> units of reclaiming jobs that have not started."""
    gone: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """(tenant, pool, resource) -> units of preempted jobs."""
    unsatisfiable: set[tuple[Offer, Reach, float]] = field(default_factory=set)
    """Offers for which no preemption makes room, with the minimum run time; valid until more jobs end."""

    @classmethod
    def of(cls, supply: Supply, now: float, held: Holdings, reserved_for: Iterable[str]) -> Reclaims:
        """`reserved_for`: jobs with reservations; capacity of jobs preempted for them is theirs."""
        ids = {*reserved_for}
        reclaims = cls(supply, now, Slots.of(supply.pools, held.taken), held)
        reclaims.leave(
            job for job in held.jobs.values() if job.preempting_for and job.preempting_for not in ids
        )
        return reclaims

    def leave(self, ending: Iterable[Held], sign: int = 1) -> None:
        """Count these jobs as preempted; with a `sign` of -1, undo that."""
        for job in ending:
            placement = tuple((node, sign * units) for node, units in job.placement)
            self.slots.give(job.pool, job.resource, placement)
            self.gone[job.tenant, job.pool, job.resource] += sign * job.units
            self.unsatisfiable.clear()

    def take(
        self, job: Queued, offer: Offer, reach: Reach, allowed: Callable[[tuple[Held, ...], Placement], bool]
    ) -> tuple[Held, ...] | None:
        """Borrowed jobs to preempt for `job`, beside those that are preempted already. None if the job is not
        within its grant together with what its tenant reclaims already, if preemption makes no room, or if
        reservations do not allow the placement: reserved capacity would only be borrowed again."""
        key = offer.pool, offer.resource
        whose = job.tenant, *key
        granted = self.supply.rule(job.tenant).grants.get(key, 0)
        if self.held.used.get(whose, 0) + self.taking[whose] + offer.units > granted:
            return None
        place, ending = self.slots.place(offer, reach), tuple[Held, ...]()
        if place is None:
            ending = self._ending(offer, reach, self.supply.rules.minimum_runtime_s)
            self.leave(ending)
            place = self.slots.place(offer, reach) if ending else None
        if place is None or not allowed(ending, place):
            self.leave(ending, sign=-1)
            return None
        self.slots.take(offer.pool, offer.resource, place)
        self.taking[whose] += offer.units
        return ending

    def can_reclaim_later(self, offer: Offer, reach: Reach) -> bool:
        """Whether there is room once borrowed jobs have run for the minimum run time."""
        return bool(self._ending(offer, reach, 0))

    def _ending(self, offer: Offer, reach: Reach, minimum_runtime_s: float) -> tuple[Held, ...]:
        if (offer, reach, minimum_runtime_s) in self.unsatisfiable:
            return ()
        key = offer.pool, offer.resource
        borrowed_jobs = [
            held
            for held in self.held.jobs.values()
            if held.borrowed
            and (held.pool, held.resource) == key
            and held.preempting_for is None
            and (not held.started or self.now - held.since >= minimum_runtime_s)
        ]
        rules = {tenant: self.supply.rule(tenant) for tenant in {held.tenant for held in borrowed_jobs}}
        beyond = {
            tenant: self.held.used.get((tenant, *key), 0) - self.gone[tenant, *key] - rule.grants.get(key, 0)
            for tenant, rule in rules.items()
        }
        share = {tenant: more / rules[tenant].weight for tenant, more in beyond.items()}
        for capacity_type in sorted(reach.types):  # a job does not span two
            side = reach._replace(types=frozenset({capacity_type}))
            if ending := reclaim_victims(offer, side, self.slots, borrowed_jobs, beyond, share, self.now):
                return ending
        self.unsatisfiable.add((offer, reach, minimum_runtime_s))
        return ()


def reclaim_victims(
    offer: Offer, reach: Reach, slots: Slots, borrowed_jobs: Sequence[Held], beyond: Mapping[str, int],
    share: Mapping[str, float], now: float,
) -> tuple[Held, ...]:  # fmt: skip
    """The borrowed jobs to preempt so that `offer` has room on nodes in reach; empty if even all of them make
    no room, or if none has to end. The tenant with the largest `share` comes first, and of its jobs the one
    that loses the least work. `beyond`: tenant -> units beyond its grant; a tenant without any is spared, so
    at most one of its jobs crosses that line."""
    count, units = slots.nodes_for(offer)
    by_node: dict[int, list[_Part]] = {}
    for held in borrowed_jobs:
        part = _Part(-share[held.tenant], held.gpu_micro * (now - held.since), held.job, held)
        for node, _ in held.placement:
            by_node.setdefault(node, []).append(part)
    free, left = dict(slots.nodes_of(offer, reach)), dict(beyond)
    ending: list[Held] = []
    for _ in range(count):
        ways = []
        for node, there in free.items():
            parts = by_node.get(node, [])
            needed = _needed_on(
                node, units - there, [part for part in parts if part.held not in ending], left
            )
            if needed is not None:
                least = max((part.share for part in needed), default=float("-inf"))
                ways.append((least, sum(part.lost for part in needed), node, needed))
        if not ways:
            return ()
        _, _, node, needed = min(ways, key=lambda way: way[:3])
        for part in needed:
            left[part.held.tenant] -= part.held.units
            for at, here in part.held.placement:
                if at in free:
                    free[at] += here
        del free[node]
        ending += [part.held for part in needed]
    return tuple(ending)


class _Part(NamedTuple):
    """A borrowed job, in order of preemption."""

    share: float
    """Negative: the smallest goes first."""
    lost: float
    """GPU seconds of work that preemption loses."""
    job: str
    held: Held


def _needed_on(
    node: int, short: int, parts: Sequence[_Part], beyond: Mapping[str, int]
) -> list[_Part] | None:
    """The first jobs that free this many units of the node, without unnecessary ones; None if even all do
    not."""
    if short <= 0:
        return []
    taken: list[tuple[_Part, int]] = []
    spent = Counter[str]()
    for part in sorted(parts, key=lambda part: part[:3]):
        held = part.held
        if beyond[held.tenant] > spent[held.tenant]:
            here = sum(units for at, units in held.placement if at == node)
            spent[held.tenant] += held.units
            short -= here
            taken.append((part, here))
            if short <= 0:
                break
    if short > 0:
        return None
    needed = []
    for part, here in reversed(taken):
        if short + here <= 0:
            short += here
        else:
            needed.append(part)
    return needed[::-1]
