"""What runs at a moment costs for an hour, by whose it is and where: what `/metrics` and the pages show.

Added up over a run it is what the ledger charges.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from gpupool.environment.plan.model import RESERVED
from gpupool.queue.domain.state import Held, Snapshot
from gpupool.queue.domain.supply import Supply


class GpuHolding(NamedTuple):
    """Whose GPUs, and where they are."""

    tenant: str
    project: str
    """Empty where there is none."""
    pool: str
    capacity_type: str
    by: str
    """job, or pod: pods of a tenant's own."""


def per_hour(seen: Snapshot, supply: Supply) -> Counter[GpuHolding]:
    """Micro-USD an hour, also where it is 0."""
    cost = Counter[GpuHolding]()
    for job in seen.held:
        by = "job" if job.of_queue else "pod"
        cost[GpuHolding(job.tenant, job.project or "", job.pool, job.capacity_type, by)] += _rate(job, supply)
    return cost


def _rate(job: Held, supply: Supply) -> int:
    """Of jobs from the start of their container on, as they are charged. Pods have no price of their own:
    theirs is what a job would pay for as much."""
    if not job.started:
        return 0
    if job.of_queue or job.pool not in supply.pools:
        return job.rate_micro
    if job.capacity_type == RESERVED:
        return 0
    pool = supply.pools[job.pool]
    rates = pool.spot_rate_micro if job.capacity_type == "spot" and pool.spot_rate_micro else pool.rate_micro
    return rates.get(job.resource, 0) * job.units
