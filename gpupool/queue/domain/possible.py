"""What can start at all, whatever else runs and is spent: for what can't, no time comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpupool.queue.domain import budget, refusals
from gpupool.queue.domain.placement import Reach, Slots
from gpupool.queue.domain.state import Held, Holdings, Queued
from gpupool.queue.domain.supply import PoolSupply, Supply
from gpupool.queue.records import Offer, Waiting, WaitReason


@dataclass(slots=True)
class Possible:
    """Of one round: what it works out holds for as long as the supply does."""

    supply: Supply
    now: float
    slots: Slots
    """Of the same supply: the sizes of its nodes."""
    pods: Sequence[Held]
    """What is held by others than the queue."""
    never: dict[tuple[str, str, str, int, bool], Waiting | None] = field(default_factory=dict)
    """Tenant, pool, resource, units, whether the job may be preempted -> why that is never possible."""
    unused: Slots | None = None
    """What pods leave, once that is needed."""

    def impossible(self, job: Queued, offer: Offer) -> Waiting | None:
        """Why the offer can't be taken whatever else runs, money apart; None where it can."""
        whose = job.tenant, offer.pool, offer.resource, offer.units, job.preemptible
        if whose not in self.never:
            self.never[whose] = self._impossible(job, offer)
        return self.never[whose]

    def _impossible(self, job: Queued, offer: Offer) -> Waiting | None:
        rule, key = self.supply.rule(job.tenant), (offer.pool, offer.resource)
        granted = rule.grants.get(key, 0)
        most = rule.up_to.get(key, granted) if job.preemptible else granted
        never = self.no_place(offer)
        if never is not None:
            return never
        return refusals.above_grant(job.tenant, offer, most) if offer.units > most else None

    def no_place(self, offer: Offer) -> Waiting | None:
        """Why the pool never has such slots, even if nothing runs there."""
        pool = self.supply.pools.get(offer.pool)
        if pool is None or not pool.slots(offer.resource):
            return refusals.no_pool(offer)
        count, units = self.slots.nodes_for(offer)
        fits = count <= sum(node.slots.get(offer.resource, 0) >= units for node in pool.nodes)
        return None if fits else refusals.above_pool(offer, pool)

    def unaffordable(self, job: Queued, offer: Offer) -> Waiting | None:
        """Why no period's budget pays for the offer, nor for a cheaper type of its nodes."""
        never = never_paid(self.supply, job, offer)
        return Waiting(WaitReason.UNSCHEDULABLE, str(never)) if never else None

    def attainable(self, job: Queued) -> bool:
        """Whether the job could start on its first offer if no other job ran: pods that are not the queue's
        may stay for ever."""
        offer, pods = job.offers[0], self.pods
        if self.impossible(job, offer):
            return False
        if not pods:
            return True
        if self.unused is None:
            self.unused = Slots.of(self.supply.pools, Holdings.of(pods).taken)
        granted = self.supply.rule(job.tenant).grants.get((offer.pool, offer.resource), 0)
        whose = (job.tenant, offer.pool, offer.resource)
        units = sum(pod.units for pod in pods if (pod.tenant, pod.pool, pod.resource) == whose)
        reach = reach_of(self.supply.pools[offer.pool], job, self.now)
        return units + offer.units <= granted and self.unused.place(offer, reach) is not None


def reach_of(pool: PoolSupply, job: Queued, now: float) -> Reach:
    """The nodes that the job may be on, whatever else runs."""
    return Reach(pool.types_for(job.may_be_on_spot), pool.closed_to(now + job.timeout_s, now))


def never_paid(supply: Supply, job: Queued, offer: Offer) -> budget.Never | None:
    """Which budget never pays for the offer, nor for a cheaper type of its nodes; None where each may."""
    rule = supply.rule(job.tenant)
    if job.budget_limit_micro is None and rule.least_micro * 3600 >= offer.rate_micro * job.timeout_s:
        return None  # nearly all of them
    pool = supply.pools.get(offer.pool)
    types = pool.types_for(job.may_be_on_spot) if pool else ()
    rate = min((offer.rate(capacity_type) for capacity_type in types), default=offer.rate_micro)
    return budget.never(job, rate, rule)
