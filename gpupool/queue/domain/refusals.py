"""Why a job does not start: each reason with its numbers in one plain sentence.

The sentences name no other jobs, because these may belong to another tenant.
"""

from __future__ import annotations

from gpupool.queue.domain.placement import Slots
from gpupool.queue.domain.reasons import of_bound
from gpupool.queue.domain.state import Holdings
from gpupool.queue.domain.supply import PoolSupply
from gpupool.queue.records import Offer, Waiting, WaitReason


def no_tenant(tenant: str) -> Waiting:
    return Waiting(
        WaitReason.UNSCHEDULABLE, f"the environment file has no tenant {tenant}; add it to `tenants`"
    )


def no_pool(offer: Offer) -> Waiting:
    return Waiting(
        WaitReason.UNSCHEDULABLE,
        f"the environment file has no pool {offer.pool} with {offer.resource}; change gpu_pool_requested",
    )


def above_grant(tenant: str, offer: Offer, granted: int) -> Waiting:
    return Waiting(
        WaitReason.UNSCHEDULABLE,
        f"the job needs {offer.units} {offer.resource} of {offer.pool}, and {tenant} is granted {granted}; "
        "lower gpu_count, or raise the tenant's `pools` in the environment file",
    )


def above_pool(offer: Offer, pool: PoolSupply) -> Waiting:
    return Waiting(
        WaitReason.UNSCHEDULABLE,
        f"the job needs {offer.units} {offer.resource}, and {pool.name} has {pool.slots(offer.resource)} on "
        f"{len(pool.nodes)} nodes; lower gpu_count, or raise the pool's `nodes` in the environment file",
    )


def running_limit(tenant: str, running: int, limit: int) -> Waiting:
    return Waiting(WaitReason.TENANT_LIMIT, f"{tenant} has {running} running jobs, and its limit is {limit}")


def grant_in_use(tenant: str, offer: Offer, used: int, granted: int) -> Waiting:
    return Waiting(
        WaitReason.TENANT_LIMIT,
        f"{tenant} uses {used} of its {granted} {offer.resource} of {offer.pool}, "
        f"and the job needs {offer.units}",
    )


def up_to_in_use(tenant: str, offer: Offer, used: int, granted: int, most: int) -> Waiting:
    return Waiting(
        WaitReason.TENANT_LIMIT,
        f"{tenant} uses {used} {offer.resource} of {offer.pool} ({granted} granted, {most} with borrowing), "
        f"and the job needs {offer.units}",
    )


def borrowing_paused(tenant: str, offer: Offer, used: int, granted: int) -> Waiting:
    return Waiting(
        WaitReason.TENANT_LIMIT,
        f"{tenant} uses {used} of its {granted} {offer.resource} of {offer.pool}, and can't borrow more "
        "while a tenant below its grant reclaims capacity",
    )


def reclaiming(waiting: Waiting, tenant: str, preempted: int) -> Waiting:
    """`preempted`: borrowed jobs that this round has asked to stop; 0 where an earlier round did."""
    jobs = "1 borrowed job is" if preempted == 1 else f"{preempted or ''} borrowed jobs are".lstrip()
    return Waiting(waiting.reason, f"{waiting.detail}; {jobs} preempted, because {tenant} is below its grant")


def preempting(waiting: Waiting, preempted: int) -> Waiting:
    jobs = "1 running job is" if preempted == 1 else f"{preempted} running jobs are"
    return Waiting(waiting.reason, f"{waiting.detail}; {jobs} preempted for it")


def spot_share(pool: PoolSupply, only: str) -> Waiting:
    return Waiting(
        WaitReason.SPOT_SHARE,
        f"{pool.name} has a spot share of {pool.spot_share:.0%}, and its {only} nodes are full",
    )


def ends_before(pool: PoolSupply) -> Waiting:
    return Waiting(
        WaitReason.CAPACITY,
        f"only reserved nodes of {pool.name} are free, and their reservation may end before the job; "
        "lower timeout_seconds",
    )


def no_room(pool: PoolSupply, offer: Offer, slots: Slots, held: Holdings) -> Waiting:
    """Why no node has room for the offer, of the types that it may be on."""
    free = slots.sum_free(pool.name, offer.resource)
    if offer.units > offer.request:
        return Waiting(WaitReason.EXCLUSIVE, f"no node of {pool.name} is empty: {free} of its slots are free")
    size = slots.sliced.get((pool.name, offer.resource))
    alone = sum(
        job.of_queue and job.units == size and (job.pool, job.resource) == (pool.name, offer.resource)
        for job in (held if size and free == 0 else ())
    )
    if alone:
        return Waiting(
            WaitReason.EXCLUSIVE,
            f"exclusive jobs occupy {alone} of {len(pool.nodes)} nodes of {pool.name}, and no slot is free",
        )
    return Waiting(
        WaitReason.CAPACITY,
        f"the job needs {offer.units} {offer.resource} of {pool.name}; {free} of "
        f"{pool.slots(offer.resource)} are free, at most "
        f"{slots.largest_free(pool.name, offer.resource)} on one node",
    )


def reserved_for_another(bound: str, waited_s: float) -> Waiting:
    """`bound` as `gpupool.queue.domain.reservations` names it."""
    return Waiting(
        WaitReason.RESERVATION,
        f"{of_bound(bound)} is reserved for a job that has waited for {waited_s / 60:.0f} minutes",
    )
