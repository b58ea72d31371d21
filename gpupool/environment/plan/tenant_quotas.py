"""The ResourceQuotas that count a tenant's GPUs: one for all, and more where that can't bind a grant.

A quota counts a resource of a whole namespace, over all pools that offer it under one name. Where a tenant
has several such pools, a quota for each counts the pods that carry the pool's PriorityClasses
(`gpupool.environment.plan.priority_classes`). Where it may borrow, quotas of all but borrowed pods hold its
own to what is granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.pods import BORROWED_CLASS
from gpupool.environment.plan.priority_classes import classes_of, counted_apart
from gpupool.environment.plan.tenants import MachineShare, Tenant

ALL, GRANTED = "gpupool", "gpupool-granted"
"""Names of the quotas of all pods, and of all but borrowed ones; a pool's name follows behind a dot."""


@dataclass(frozen=True, slots=True)
class TenantQuota:
    """One ResourceQuota that counts a tenant's GPUs."""

    name: str
    counts: Mapping[str, int]
    """Extended resource -> count."""
    requests: MachineShare | None = None
    """CPU and memory; None: not bounded by this quota."""
    extended: Mapping[str, int] = field(default_factory=dict)
    """Extended resource that is no GPU -> count; what the quota does not name is not bounded by it."""
    pool: str | None = None
    """The pool whose pods it counts; None: those of all pools."""
    only: frozenset[str] | None = None
    """PriorityClasses whose pods it counts; None: any, and none."""
    never: frozenset[str] = frozenset()
    """PriorityClasses whose pods it does not count."""

    def counts_class(self, priority_class: str) -> bool:
        """Whether it counts a pod of that PriorityClass; empty: of none."""
        return priority_class not in self.never and (self.only is None or priority_class in self.only)


def quotas_of(plan: Plan, tenant: Tenant) -> tuple[TenantQuota, ...]:
    """All quotas that count a tenant's GPUs. What is borrowed counts in those of what it may use in all."""
    nothing = dict.fromkeys(plan.resources, 0)
    carried = {pool: classes_of(plan, tenant, pool) for pool in counted_apart(plan, tenant)}
    unshared = dict.fromkeys(plan.extended_resources, 0)
    most = nothing | dict(tenant.quota_up_to)
    extended = unshared | dict(tenant.extended_up_to)
    quotas = [TenantQuota(ALL, most, tenant.requests_up_to, extended)]
    if tenant.up_to:
        lent = {row.name for classes in carried.values() for row in classes if row.borrowed}
        never = frozenset(lent | {BORROWED_CLASS})
        granted = nothing | dict(tenant.quota)
        extended = unshared | dict(tenant.extended)
        quotas.append(TenantQuota(GRANTED, granted, tenant.requests, extended, never=never))
    for pool, classes in carried.items():
        granted = dict.fromkeys(plan.pool(pool).slices_per_node, 0) | dict(tenant.grants[pool])
        most = granted | dict(tenant.up_to.get(pool, {}))
        names = frozenset(row.name for row in classes)
        quotas.append(TenantQuota(f"{ALL}.{pool}", most, pool=pool, only=names))
        if pool in tenant.up_to:
            own = frozenset(row.name for row in classes if not row.borrowed)
            quotas.append(TenantQuota(f"{GRANTED}.{pool}", granted, pool=pool, only=own))
    return tuple(quotas)
