"""Which pool suits a piece of work, and what the alternatives cost.

By memory and kind of work alone: nothing is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.environment.plan.model import Plan, Pool
from gpupool.environment.plan.pool_cost import HOURS_PER_MONTH
from gpupool.environment.plan.tenants import Tenant
from gpupool.queue.domain.offers import GpuRequest, granted_of, offers_of
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import MICRO, Offer

KINDS = ("training", "inference", "interactive")
RESERVED_FROM = 0.6
"""What a reserved hour costs of an on-demand one: from this share of the month on reserving is cheaper. An
assumption, not a quote: AWS' one-year reservations without upfront payment were at 0.59 for p4d.24xlarge
(19.22 and 32.77 USD before the prices of June 2025)."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One fitting offer, with what it costs."""

    offer: Offer
    memory_gib: float
    """GPU memory that the job has there."""
    isolated: bool
    """Whether memory and faults of other jobs are kept apart."""
    why: str


def recommend(
    plan: Plan, supply: Supply, tenant: Tenant, memory_gib: float, kind: str, gpu_count: int = 1
) -> tuple[Recommendation, ...]:
    """Fitting offers of the tenant's pools, best first: cheapest, and for inference isolated ones before
    others. Raises ValueError for a kind of work that is not known."""
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r} is none of {', '.join(KINDS)}")
    if tenant.gpus_per_job is not None and gpu_count > tenant.gpus_per_job:
        return ()
    found = []
    for pool in plan.pools:
        for isolation in ("shared", "exclusive"):
            wish = GpuRequest(pool.name, isolation, None, gpu_count)
            granted = granted_of(tenant, offers_of(pool, supply.pools[pool.name], wish), preemptible=False)
            found += _of(pool, granted, memory_gib, kind)
    unique = {
        (recommendation.offer.pool, recommendation.offer.resource, recommendation.offer.units): recommendation
        for recommendation in found
    }
    return tuple(
        sorted(
            unique.values(),
            key=lambda one: (kind == "inference" and not one.isolated, one.offer.rate_micro, one.offer.pool),
        )
    )


def reserved_hint(usage_hours: float, usd_on_demand: float) -> str | None:
    """A sentence where a month's use would be cheaper on reserved capacity; None elsewhere.

    `usage_hours`: GPU-machine hours of the month; `usd_on_demand`: an hour's price.
    """
    share = usage_hours / HOURS_PER_MONTH
    if share <= RESERVED_FROM:
        return None
    saved = usage_hours * usd_on_demand - HOURS_PER_MONTH * usd_on_demand * RESERVED_FROM
    return (
        f"in use for {share:.0%} of the month: reserved capacity (about {RESERVED_FROM:.0%} of the on-demand "
        f"price) would save about ${saved:,.0f} a month"
    )


def _of(pool: Pool, found: list[Offer], memory_gib: float, kind: str) -> list[Recommendation]:
    result = []
    for offer in found:
        gpus = offer.gpu_micro / MICRO
        memory = pool.gpu.memory_mib / 1024 * gpus
        whole = gpus >= 1
        isolated = whole or bool(pool.sharing.layout)
        if memory < memory_gib or (kind == "training" and not isolated and pool.sharing.has_daemon):
            continue
        what = (
            f"{gpus:g} {pool.gpu.title}"
            if whole
            else f"{offer.resource.rpartition('/')[2]} of a {pool.gpu.title}"
        )
        shared = "" if isolated else ", its memory shared with others"
        result.append(Recommendation(offer, round(memory, 1), isolated, f"{what}: {memory:.1f} GiB{shared}"))
    return result
