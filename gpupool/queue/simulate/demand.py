"""What an environment file offers to a job of a trace: the queue's own answer to the request that it would
be."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from gpupool.environment.plan.model import Pool
from gpupool.environment.plan.tenants import Tenant
from gpupool.queue.domain.current import Current
from gpupool.queue.domain.fit import rank_of
from gpupool.queue.domain.lanes import lane_of
from gpupool.queue.domain.offers import AUTO, GpuRequest, UnservableRequest, granted_of, offers, offers_of
from gpupool.queue.domain.state import Queued
from gpupool.queue.records import MICRO, Level, Offer
from gpupool.queue.simulate.trace import Arrival

MORE_THAN_IT_TAKES = 2
"""A job that names no timeout has the queue's default, or so many times what it takes, where that is more: no
trace knows what its users would have timeout for here."""
_Wish = tuple[str, str | None, float, str | None, str | None, bool | None]
"""Tenant, project, GPUs, what GPU, priority and whether it may be preempted."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """How the file takes jobs that wish the same."""

    offers: tuple[Offer, ...]
    level: Level
    preempts: bool
    preemptible: bool
    lane: str


@dataclass(slots=True)
class Demand:
    """Jobs of one environment."""

    current: Current
    _known: dict[_Wish, Accepted | str] = field(default_factory=dict)

    def queued(self, id: str, arrival: Arrival) -> Queued | str:
        """The job as the queue has it; else the type of the problem by which the queue refuses it
        (docs/queue-problems.md)."""
        wish = (
            arrival.tenant, arrival.project, arrival.gpus, arrival.gpu, arrival.priority, arrival.preemptible,
        )  # fmt: skip
        accepted = self._known.get(wish)
        if accepted is None:
            accepted = self._known[wish] = self._accepted(*wish)
        if isinstance(accepted, str):
            return accepted
        queue = self.current.plan.queue
        timeout = arrival.timeout_s or max(
            queue.default_timeout_s, ceil(arrival.seconds * MORE_THAN_IT_TAKES)
        )
        return Queued(
            id, 0, arrival.tenant, arrival.project, accepted.lane, accepted.level, arrival.submitted,
            accepted.offers, min(timeout, queue.longest_timeout_s), None, 0, accepted.preemptible,
            accepted.preempts,
        )  # fmt: skip

    def _accepted(
        self, name: str, project: str | None, gpus: float, gpu: str | None, priority: str | None,
        preemptible: bool | None,
    ) -> Accepted | str:  # fmt: skip
        plan = self.current.plan
        tenant = self.current.tenants.get(name)
        if tenant is None:
            return "tenant-not-granted"
        if project is not None and all(project != known.name for known in tenant.projects):
            return "project-not-granted"
        try:
            rank = rank_of(plan, tenant, priority, at_most=True)
            may_end = rank.preemptible and preemptible is not False
            best = min(
                (offer for pool in plan.pools for offer in self._offers(tenant, pool, gpus, gpu, may_end)),
                key=lambda offer: (offer.rate_micro, offer.gpu_micro),
                default=None,
            )
            wish = GpuRequest(gpu or AUTO, gpu_count=ceil(gpus), preemptible=may_end)
            if best is not None:
                wish = GpuRequest(best.pool, gpu_count=best.request, preemptible=may_end)
            chosen = offers(plan, self.current.supply, tenant, wish)  # raises the queue's own refusal
        except UnservableRequest as refused:
            return refused.type
        if best is None:
            return "does-not-fit"
        fallbacks = tuple(offer for offer in chosen if offer.pool != best.pool)
        ways = (best, *fallbacks)
        lane = lane_of(ways, rank.level, project, may_end, rank.preempts)
        return Accepted(ways, rank.level, rank.preempts, may_end, lane)

    def _offers(
        self, tenant: Tenant, pool: Pool, gpus: float, gpu: str | None, preemptible: bool
    ) -> list[Offer]:
        """What of a pool is as much as the job asks for: whole GPUs, or one slice that is large enough."""
        if gpu not in (None, pool.name, pool.gpu.key, *pool.sharing.layout):
            return []
        named = gpu if gpu is not None and gpu in pool.sharing.layout else pool.name
        wish = GpuRequest(named, gpu_count=ceil(gpus))
        fitting = granted_of(tenant, offers_of(pool, self.current.supply.pools[pool.name], wish), preemptible)
        return [offer for offer in fitting if offer.gpu_micro >= int(gpus * MICRO)]
