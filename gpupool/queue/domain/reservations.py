"""Reservations of waiting jobs: EASY backfill, in pools and within grants.

What bounds a job is named as text: `pool` for the nodes of a pool, `pool/tenant` for what the tenant is
granted there, `/tenant` for the jobs that it may have running. Of each one job at most has a reservation.
Bounds are taken in that order, grant, running jobs, nodes, and none without those before it: what holds one
waits only for holders of later ones, so no two jobs ever wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpupool.queue.domain.placement import Shadow
from gpupool.queue.domain.state import Held, Queued
from gpupool.queue.domain.supply import TenantRule
from gpupool.queue.records import Offer, Placement


@dataclass(frozen=True, slots=True)
class Shortfall:
    """By how much a job exceeds its tenant's limits; 0 for none."""

    units: int
    """Beyond the grant."""
    jobs: int
    """Beyond the limit of running jobs."""

    def __bool__(self) -> bool:
        return self.units > 0 or self.jobs > 0


@dataclass(frozen=True, slots=True)
class Reservation:
    """When a reserved job starts, if every running job runs until its timeout, and what is left then."""

    offer: Offer
    at: float
    """Epoch seconds."""
    nodes: frozenset[int]
    units: int
    """Rest of the grant beside the job."""
    jobs: int
    """Further jobs that may run beside it."""

    def allows(self, bound: str, offer: Offer, placement: Placement, ends: float) -> bool:
        """Whether a job that runs there until `ends` does not delay the reserved one, within that bound."""
        if ends <= self.at:
            return True
        if bound.startswith("/"):
            return self.jobs > 0
        if "/" in bound:
            return offer.resource != self.offer.resource or offer.units <= self.units
        return not any(node in self.nodes for node, _ in placement)


@dataclass(slots=True)
class Reservations:
    """Who holds which reservation; changes during a round."""

    rules: Mapping[str, TenantRule]
    holders: dict[str, Queued] = field(default_factory=dict)
    """Bound -> job that it is reserved for."""
    planned: dict[str, Reservation] = field(default_factory=dict)
    """Job -> its plan, if it is computed and still valid."""
    freed: set[str] = field(default_factory=set)
    """Bounds released in this round. They are given out in the next one, because most jobs that wait for them
    have been processed in this one."""

    @classmethod
    def of(
        cls, stored: Mapping[str, str], queued: Mapping[str, Queued], rules: Mapping[str, TenantRule]
    ) -> Reservations:
        """Those whose jobs still wait, as far as today's rules let one job have them."""
        present = cls(rules)
        for id in dict.fromkeys(stored.values()):
            if (job := queued.get(id)) is not None:
                for bound in present.bounds(job):
                    if stored.get(bound) != id:
                        break
                    present.holders[bound] = job
        return present

    def of_pools(self) -> tuple[Queued, ...]:
        """The jobs with reservations on nodes: they go first."""
        return tuple({job.job: job for bound, job in self.holders.items() if "/" not in bound}.values())

    def bounds(self, job: Queued) -> tuple[str, ...]:
        """What bounds the job on its first offer, in the order in which it is reserved."""
        pool, rule = job.offers[0].pool, self.rules.get(job.tenant)
        grant = f"{pool}/{job.tenant}"
        return (grant, f"/{job.tenant}", pool) if rule and rule.running is not None else (grant, pool)

    def mine(self, bound: str, job: Queued) -> bool:
        holder = self.holders.get(bound)
        return holder is not None and holder.job == job.job

    def free(self, bounds: Iterable[str], job: Queued) -> bool:
        """Whether those of `bounds` that `job` does not hold can be reserved for it."""
        left = [bound for bound in bounds if not self.mine(bound, job)]
        return bool(left) and not any(bound in self.holders or bound in self.freed for bound in left)

    def against(self, job: Queued, pool: str) -> Iterator[tuple[str, Queued]]:
        """Bounds of the job on a pool that are reserved for others: bound, its holder."""
        for bound in (f"{pool}/{job.tenant}", f"/{job.tenant}", pool) if self.holders else ():
            holder = self.holders.get(bound)
            if holder is not None and holder.job != job.job:
                yield bound, holder

    def give(self, bounds: Iterable[str], job: Queued) -> None:
        """Reserve these for `job`, replacing other holders."""
        for bound in bounds:
            former = self.holders.get(bound)
            if former is not None and former.job != job.job:
                self.release(former, since=bound)
            self.holders[bound] = job
        self.planned.pop(job.job, None)

    def release(self, job: Queued, since: str | None = None) -> None:
        """Release the job's reservations; with `since`, from that bound on."""
        own = self.bounds(job)
        for bound in own[own.index(since) if since else 0 :]:
            if self.mine(bound, job):
                del self.holders[bound]
                self.freed.add(bound)
        self.planned.pop(job.job, None)

    def forget(self, tenant: str, pool: str) -> None:
        """Discard plans there: a job of that tenant has started on the pool."""
        for bound in (f"{pool}/{tenant}", f"/{tenant}", pool):
            holder = self.holders.get(bound)
            if holder is not None:
                self.planned.pop(holder.job, None)


def reservation_for(
    offer: Offer, rule: TenantRule, own: Iterable[Held], nodes: Shadow | None, now: float
) -> Reservation:
    """The plan of a job that starts on `offer`. `own`: all that its tenant holds. `nodes`: where and when
    there is room for it; None while it exceeds its tenant's limits."""
    units, jobs = [], []
    for held in own:
        ends = now if held.preempting_for else max(now, held.ends)  # as in `shadow`
        if (held.pool, held.resource) == (offer.pool, offer.resource):
            units.append((ends, held.units))
        if held.of_queue and rule.running is not None:
            jobs.append((ends, 1))
    room = rule.grants.get((offer.pool, offer.resource), 0) - offer.units
    beside = 1 if rule.running is None else rule.running - 1
    at = max(_when(units, room, now), _when(jobs, beside, now), nodes.at if nodes else now)
    return Reservation(
        offer,
        at,
        nodes.nodes if nodes else frozenset(),
        room - sum(amount for ends, amount in units if ends > at),
        beside - sum(amount for ends, amount in jobs if ends > at),
    )


def _when(leaving: list[tuple[float, int]], most: int, now: float) -> float:
    """The time from which on no more than `most` is held; infinity where that never is."""
    over = sum(amount for ends, amount in leaving if ends > now) - most
    at = now
    for ends, amount in sorted(leaving):
        if over <= 0:
            break
        if ends > now:
            at, over = ends, over - amount
    return at if over <= 0 else float("inf")
