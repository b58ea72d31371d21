"""Tenants of two Plans: which came, went, were renamed or changed, and what each may use."""

from __future__ import annotations

from gpupool.environment.plan.changes import wording
from gpupool.environment.plan.changes.fields import differing, tenant_settings
from gpupool.environment.plan.changes.model import BeforeAfter, Change, ResourceChange, TenantChange
from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.tenants import Tenant


def tenant_changes(before: Plan | None, after: Plan | None) -> tuple[TenantChange, ...]:
    """Every tenant of both states: those that are left in the order of `after`, then those that went.

    A tenant that is new is one renamed where it has the namespace of one that went: its objects live there.
    """
    old = {tenant.name: tenant for tenant in before.tenants} if before else {}
    new = {tenant.name: tenant for tenant in after.tenants} if after else {}
    homes = {tenant.namespace: name for name, tenant in old.items() if name not in new}
    renamed = {
        name: homes[tenant.namespace]
        for name, tenant in new.items()
        if name not in old and tenant.namespace in homes
    }
    kept = [_pair(old.get(renamed.get(name, name)), tenant) for name, tenant in new.items()]
    gone = [tenant for name, tenant in old.items() if name not in new and name not in renamed.values()]
    return (*kept, *(_pair(tenant, None) for tenant in gone))


def _pair(before: Tenant | None, after: Tenant | None) -> TenantChange:
    there = after or before
    assert there is not None
    fields = differing(tenant_settings(before), tenant_settings(after)) if before and after else ()
    if before and after and not (before.budget and after.budget):
        # When alerts go out and the like is part of a budget that comes or goes.
        fields = tuple(field for field in fields if not field.name.startswith("budget."))
    budget = BeforeAfter(
        wording.budget(before.budget) if before else None, wording.budget(after.budget) if after else None
    )
    quota = _quota(before, after)
    change: Change = "unchanged"
    if before is None or after is None:
        change = "removed" if before else "added"
    elif before.name != after.name:
        change = "renamed"
    elif fields or budget.changed or any(each.before != each.after for each in quota):
        change = "changed"
    renamed_from = before.name if before and change == "renamed" else None
    return TenantChange(there.name, there.namespace, change, renamed_from, quota, budget, fields)


def _quota(before: Tenant | None, after: Tenant | None) -> tuple[ResourceChange, ...]:
    old, new = (tenant.quota if tenant else {} for tenant in (before, after))
    return tuple(ResourceChange(name, old.get(name, 0), new.get(name, 0)) for name in sorted({*old, *new}))
