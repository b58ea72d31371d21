"""Every PriorityClass that an environment needs, and which of them a tenant's pods may carry where.

A ResourceQuota counts an extended resource of a whole namespace: it can't distinguish two pools whose nodes
advertise the same name. It can distinguish PriorityClasses (Kubernetes 1.36, resource quotas, "Resource
quota per PriorityClass"). So where a tenant has several pools of one resource name, its pods on each carry a
class of that pool, and a quota for each pool counts these classes alone. That the class is the pool's is for
the policy `gpu-pods-carry-their-pools-class`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.pods import BORROWED_CLASS, WARM_CLASS
from gpupool.environment.plan.tenants import Tenant
from gpupool.environment.spec.environment import Priority

UNRANKED_CLASS = "gpupool-default"
"""With a pool's name behind it: the class of pods without a priority."""
_WARM_VALUE = -10
"""Low enough for pods without a priority; lower still where the environment goes that low itself."""


@dataclass(frozen=True, slots=True)
class PlannedClass:
    """One PriorityClass."""

    name: str
    value: int
    preempts: bool
    description: str
    priority: Priority | None = None
    """The environment's priority that it belongs to."""
    queue_only: bool = False
    """Whether only pods of the job queue may carry it."""
    borrowed: bool = False
    """Whether its pods are beyond their tenant's grant."""
    pool: str | None = None
    """The only pool whose pods carry it; None: of any."""

    @property
    def queued(self) -> bool:
        """Whether the job queue's pods of the priority carry it: they never preempt."""
        return not self.preempts


def priority_classes(plan: Plan) -> tuple[PlannedClass, ...]:
    """All of them, each name once. Those of single pools come last."""
    ranked = _ranked(plan)
    apart = {pool for tenant in plan.tenants for pool in counted_apart(plan, tenant)}
    of_pools = [_for_pool(planned, pool) for pool in sorted(apart) for planned in (_UNRANKED, *ranked)]
    warm = [_warm(ranked)] if any(pool.warm for pool in plan.pools) else []
    return (*ranked, *warm, *of_pools)


def counted_apart(plan: Plan, tenant: Tenant) -> tuple[str, ...]:
    """The tenant's pools that offer a resource which another one of its pools offers too."""
    offers = {name: plan.pool(name).slices_per_node.keys() for name in tenant.grants}
    return tuple(
        name
        for name, resources in offers.items()
        if any(resources & others for other, others in offers.items() if other != name)
    )


def classes_of(plan: Plan, tenant: Tenant, pool: str | None) -> tuple[PlannedClass, ...]:
    """What the tenant's pods on `pool`, or without a GPU, may carry, the highest first, the queue's own
    classes among them. A pod must carry one where the pool is counted apart."""
    highest = highest_value(plan, tenant)
    ranked = _ranked(plan)
    if pool in counted_apart(plan, tenant):
        ranked = tuple(_for_pool(planned, pool) for planned in (_UNRANKED, *ranked))
    allowed = (planned for planned in ranked if highest is None or planned.value <= highest)
    return tuple(sorted(allowed, key=lambda planned: -planned.value))


def own_class(plan: Plan, tenant: Tenant, pool: str) -> str | None:
    """What a pod of the tenant's own carries on `pool` where nothing is said of its priority: of a value as
    near as it may to that of pods without a class. None: it needs no class."""
    if pool not in counted_apart(plan, tenant):
        return None
    classes = classes_of(plan, tenant, pool)
    return next(row.name for row in classes if not row.queue_only and row.value <= 0)


def highest_value(plan: Plan, tenant: Tenant) -> int | None:
    """The value of the tenant's highest priority; None where the environment has no priorities."""
    return next((row.value for row in plan.priorities if row.name == tenant.max_priority), None)


def _ranked(plan: Plan) -> tuple[PlannedClass, ...]:
    """The classes of pods of any pool."""
    classes: list[PlannedClass] = []
    for priority in plan.priorities:
        value, text = priority.value, priority.description
        classes.append(PlannedClass(priority.name, value, priority.preempts, text, priority))
        if priority.queue_class != priority.name:
            text = f"{priority.name} for pods of the job queue, which does its own preemption"
            classes.append(PlannedClass(priority.queue_class, value, False, text, priority, queue_only=True))
    if plan.allows_borrowing:
        # Below pods without a priority, which take back what is granted.
        value = min([0, *(priority.value for priority in plan.priorities)]) - 1
        text = "Jobs of the queue beyond their tenant's grant; pods within a grant may preempt them"
        classes.append(PlannedClass(BORROWED_CLASS, value, False, text, queue_only=True, borrowed=True))
    return tuple(classes)


def _warm(ranked: tuple[PlannedClass, ...]) -> PlannedClass:
    value = min(_WARM_VALUE, min((planned.value for planned in ranked), default=0) - 1)
    return PlannedClass(WARM_CLASS, value, False, "Keeps nodes warm; any pod may preempt it")


_UNRANKED = PlannedClass(UNRANKED_CLASS, 0, False, "Pods without a priority")


def _for_pool(planned: PlannedClass, pool: str) -> PlannedClass:
    text = f"{planned.description or planned.name}; counts against the quota of pool {pool}"
    return replace(planned, name=f"{planned.name}.{pool}", description=text, pool=pool)
