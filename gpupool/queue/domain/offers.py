"""What a job asks for -> its offers, or the reason why it can never run here.

Final refusals only: what depends on who else runs is decided later, by `decide`. A named pool, a GPU and
`auto` all end as a list of offers, cheapest first; the fallbacks of a time-sliced pool follow, and partitions
(MIG) never mix with anything else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpupool.environment.plan.model import Plan, Pool
from gpupool.environment.plan.tenants import Tenant, memory_quantity
from gpupool.environment.sharing import GPU_RESOURCE
from gpupool.queue.domain.supply import PoolSupply, Supply
from gpupool.queue.records import MICRO, Offer
from vapcheck import amount

AUTO = "auto"
MIG = "mig"


class UnservableRequest(Exception):
    """A request that can't be served; `type` names the problem in the API's documentation, and `field` what
    of the environment file stands against it."""

    def __init__(self, type: str, detail: str, field: str) -> None:
        super().__init__(detail)
        self.type = type
        self.detail = detail
        self.field = field


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What a request says of GPUs."""

    pool: str = AUTO
    """A pool's name, a catalog key, `mig`, a MIG profile, or `auto`."""
    isolation: str | None = None
    """shared, exclusive, or None for either."""
    gpu_type: str | None = None
    """A catalog key that narrows the choice."""
    gpu_count: int = 1
    shm_mib: int = 0
    """Shared memory that it asks for; 0: what comes with the pool."""
    scratch_mib: int = 0
    """Room in its scratch folder, likewise."""
    preemptible: bool = False
    """Whether it may be ended for another, and so may borrow."""


def mib(size: str | None) -> int:
    """A quantity in MiB, rounded up; 0 for None."""
    return math.ceil((amount(size) or 0) / 2**20) if size else 0


def offers(plan: Plan, supply: Supply, tenant: Tenant, wish: GpuRequest) -> tuple[Offer, ...]:
    """The ways to run the job, best first; at least one. Raises UnservableRequest."""
    pools = [pool for pool in _candidates(plan, wish) if wish.gpu_type in (None, pool.gpu.key)]
    if not pools:
        raise UnservableRequest("pool-not-found", _nothing_called(plan, wish), "pools")
    granted = [pool for pool in pools if pool.name in tenant.grants]
    if not granted:
        names = ", ".join(pool.name for pool in pools)
        mine = ", ".join(sorted(tenant.grants)) or "no pool at all"
        raise UnservableRequest(
            "pool-not-granted",
            f"tenant {tenant.name} is not granted {names}; it is granted {mine}",
            f"tenants[{tenant.name}].pools",
        )
    found = [offer for pool in granted for offer in offers_of(pool, supply.pools[pool.name], wish)]
    if not found:
        raise _why_none(plan, tenant, granted, wish)
    fitting = granted_of(tenant, found, wish.preemptible)
    if not fitting:
        best = min(found, key=lambda offer: offer.rate_micro)
        has = tenant.grants[best.pool].get(best.resource, 0)
        most = tenant.up_to.get(best.pool, {}).get(best.resource, has)
        beyond = f"; jobs that may be preempted may use up to {most}" if most > has else ""
        raise UnservableRequest(
            "does-not-fit",
            f"the job needs {best.units} {best.resource} of {best.pool}, and {tenant.name} is granted {has}"
            f"{beyond}",
            f"tenants[{tenant.name}].pools.{best.pool}",
        )
    if tenant.gpus_per_job is not None:
        allowed = [offer for offer in fitting if offer.gpu_micro <= tenant.gpus_per_job * MICRO]
        if not allowed:
            raise UnservableRequest(
                "gpus-per-job",
                f"a job of {tenant.name} may have at most {tenant.gpus_per_job} GPUs",
                f"tenants[{tenant.name}].limits.gpusPerJob",
            )
        fitting = allowed
    roomy = [offer for offer in fitting if not _too_small(plan.pool(offer.pool), offer, wish)]
    if not roomy:
        details = "; ".join(_too_small(plan.pool(offer.pool), offer, wish)[0] for offer in fitting)
        raise UnservableRequest("does-not-fit", details, "pools")
    fitting = roomy
    return _ranked(plan, supply, tenant, wish, sorted(fitting, key=_price))


def _ranked(
    plan: Plan, supply: Supply, tenant: Tenant, wish: GpuRequest, fitting: list[Offer]
) -> tuple[Offer, ...]:
    """The cheapest, and what may stand in for it."""
    first = fitting[0]
    if wish.pool != AUTO and wish.pool not in {pool.name for pool in plan.pools}:
        return tuple(offer for offer in fitting if (offer.key == MIG) == (first.key == MIG))
    result = [first]
    for name in plan.pool(first.pool).fallback_to:
        pool = plan.pool(name)
        if wish.gpu_type in (None, pool.gpu.key):
            found = granted_of(tenant, offers_of(pool, supply.pools[name], wish), preemptible=False)
            result += [offer for offer in found if not _too_small(pool, offer, wish)]
    return tuple(result)


def _too_small(pool: Pool, offer: Offer, wish: GpuRequest) -> list[str]:
    """What the job asks of a pod beyond what the offer has for each."""
    nodes = max(1, -(-offer.request // pool.slices_per_node[offer.resource]))
    units = offer.request // nodes
    share = pool.share(offer.resource)
    rooms = (
        ("shm_size", wish.shm_mib, "memory", share.memory_mib * units if share else None),
        ("scratch_size", wish.scratch_mib, "disk", pool.disk_share_mib(offer.resource) * units),
    )
    return [
        f"{field} is {memory_quantity(size)}, and a pod of the job has {memory_quantity(room)} of {what} on "
        f"{pool.name}; ask for that at most"
        for field, size, what, room in rooms
        if room is not None and size > room
    ]


def granted_of(tenant: Tenant, found: Iterable[Offer], preemptible: bool) -> list[Offer]:
    """Those that the tenant's grants allow when it has nothing else, or what a `preemptible` job may
    borrow."""
    pools = {**tenant.grants, **tenant.up_to} if preemptible else tenant.grants
    return [offer for offer in found if offer.units <= pools.get(offer.pool, {}).get(offer.resource, 0)]


def _price(offer: Offer) -> tuple[int, int, str]:
    return (offer.rate_micro, offer.gpu_micro, offer.pool)


def _candidates(plan: Plan, wish: GpuRequest) -> list[Pool]:
    named = [pool for pool in plan.pools if pool.name == wish.pool]
    if named or wish.pool == AUTO:
        return named or list(plan.pools)
    if wish.pool == MIG:
        return [pool for pool in plan.pools if pool.sharing.layout]
    return [
        pool
        for pool in plan.pools
        if wish.pool in pool.sharing.layout or (pool.gpu.key == wish.pool and not pool.sharing.layout)
    ] or [pool for pool in plan.pools if pool.gpu.key == wish.pool]


def offers_of(pool: Pool, supply: PoolSupply, wish: GpuRequest) -> Iterator[Offer]:
    """What one pool offers: nothing where it can't do what is wished."""
    for resource, size in pool.slices_per_node.items():
        named = GPU_RESOURCE if pool.sharing.one_name else wish.pool.replace("+", ".")
        if wish.pool in pool.sharing.layout and not resource.endswith(named):
            continue
        units = request = wish.gpu_count
        if supply.gpu_micro[resource] == MICRO:
            whole = sum(node.slots.get(resource) == size for node in supply.nodes)
            possible = units <= size or (units % size == 0 and units <= size * whole)
        else:
            possible = wish.gpu_count == 1
            if wish.isolation == "exclusive" and not pool.sharing.layout:
                units, possible = size, possible and pool.lends_whole_gpus
        if possible and supply.nodes:
            spot = supply.spot_rate_micro
            yield Offer(
                pool=pool.name,
                resource=resource,
                units=units,
                request=request,
                gpu_micro=supply.gpu_micro[resource] * units,
                rate_micro=supply.rate_micro[resource] * units,
                spot_rate_micro=spot[resource] * units if spot else None,
                key=supply.key,
            )


def exclusive_pools(plan: Plan, tenant: Tenant) -> list[str]:
    """Pools of the tenant where a job can have a GPU, or a partition, to itself."""
    return [
        pool.name
        for pool in plan.pools
        if pool.name in tenant.grants
        and (
            pool.sharing.layout
            or set(pool.sharing.slices_per_gpu(pool.gpu).values()) == {1}
            or pool.lends_whole_gpus
        )
    ]


def _why_none(plan: Plan, tenant: Tenant, pools: list[Pool], wish: GpuRequest) -> UnservableRequest:
    names = ", ".join(pool.name for pool in pools)
    if wish.gpu_count > 1:
        sharing = [pool.name for pool in pools if not _of_whole_gpus(pool)]
        whole = [
            f"{pool.name} ({pool.gpus_per_node} on a node, {pool.gpus_max} in all)"
            for pool in plan.pools
            if _of_whole_gpus(pool)
        ]
        return UnservableRequest(
            "gpus-not-possible",
            f"{wish.gpu_count} GPUs for one job are not possible on {names}: more than one only on pools of "
            f"whole GPUs, within a node or in whole nodes; there are: {', '.join(whole) or 'none'}",
            f"pools[{', '.join(sharing) or names}].{'sharing' if sharing else 'nodes'}",
        )
    fitting = ", ".join(exclusive_pools(plan, tenant)) or "none"
    return UnservableRequest(
        "exclusive-not-possible",
        f"{names} can't keep a GPU for one job: its GPUs are shared, several to a machine or through MPS; "
        f"pools of {tenant.name} that can: {fitting}",
        f"pools[{names}].sharing",
    )


def _of_whole_gpus(pool: Pool) -> bool:
    return set(pool.sharing.slices_per_gpu(pool.gpu).values()) == {1} and not pool.sharing.layout


def _nothing_called(plan: Plan, wish: GpuRequest) -> str:
    keys = sorted({pool.gpu.key for pool in plan.pools})
    names = ", ".join(pool.name for pool in plan.pools)
    wanted = f"{wish.pool!r} with GPU {wish.gpu_type!r}" if wish.gpu_type else f"{wish.pool!r}"
    return f"nothing is called {wanted}; pools: {names}; GPUs: {', '.join(keys)}; or auto, mig, a MIG profile"
