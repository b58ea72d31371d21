"""Why a job does not start: each reason with its numbers in one plain sentence.

Sentences name no other jobs: those of another tenant are not for this one's eyes.
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
        "change gpu_count, or the tenant's `pools` in the environment file",
    )


def above_pool(offer: Offer, pool: PoolSupply) -> Waiting:
    return Waiting(
        WaitReason.UNSCHEDULABLE,
        f"the job needs {offer.units} {offer.resource}, and {pool.name} has {pool.slots(offer.resource)} on "
        f"{len(pool.nodes)} nodes; change gpu_count, or the pool's `nodes` in the environment file",
    )


def running_limit(tenant: str, running: int, limit: int) -> Waiting:
    return Waiting(WaitReason.TENANT_LIMIT, f"{running} of {limit} jobs of {tenant} are running")


def grant_in_use(tenant: str, offer: Offer, used: int, granted: int) -> Waiting:
    return Waiting(
        WaitReason.TENANT_LIMIT,
        f"{tenant} holds {used} of its {granted} {offer.resource} of {offer.pool}, "
        f"and the job needs {offer.units}",
    )


def up_to_in_use(tenant: str, offer: Offer, used: int, granted: int, most: int) -> Waiting:
    return Waiting(
        WaitReason.TENANT_LIMIT,
        f"{tenant} holds {used} {offer.resource} of {offer.pool}, of {granted} that it is granted and {most} "
        f"with what it may borrow, and the job needs {offer.units}",
    )


def nothing_lent(tenant: str, offer: Offer, used: int, granted: int) -> Waiting:
    return Waiting(
        WaitReason.TENANT_LIMIT,
        f"{tenant} holds {used} of its {granted} {offer.resource} of {offer.pool}, and borrows no more there "
        "while a tenant below its grant takes back its own",
    )


def given_back(waiting: Waiting, tenant: str, ending: int) -> Waiting:
    """`ending`: borrowed jobs that have just been asked to end."""
    jobs = f"{ending} borrowed jobs make" if ending != 1 else "1 borrowed job makes"
    how = f"{jobs} room" if ending else "borrowed jobs make room"
    return Waiting(waiting.reason, f"{waiting.detail}; {how}, since {tenant} is below its grant")


def spot_share(pool: PoolSupply, only: str) -> Waiting:
    return Waiting(
        WaitReason.SPOT_SHARE,
        f"{pool.name} keeps {pool.spot_share:.0%} on spot, and its {only} nodes are full",
    )


def ends_before(pool: PoolSupply) -> Waiting:
    return Waiting(
        WaitReason.CAPACITY,
        f"only reserved nodes of {pool.name} are free, and their reservation ends before the job may have; "
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
            f"exclusive jobs hold {alone} of {len(pool.nodes)} nodes of {pool.name}, and no slot is free",
        )
    return Waiting(
        WaitReason.CAPACITY,
        f"{offer.units} {offer.resource} of {pool.name} needed; {free} of "
        f"{pool.slots(offer.resource)} free, at most "
        f"{slots.largest_free(pool.name, offer.resource)} on one node",
    )


def kept_for_another(bound: str, waited_s: float) -> Waiting:
    """`bound` as `gpupool.queue.domain.reservations` names it."""
    return Waiting(
        WaitReason.RESERVATION,
        f"{of_bound(bound)} is reserved for a job that has waited for {waited_s / 60:.0f} minutes",
    )
