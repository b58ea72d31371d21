"""ResourceQuotas and LimitRange per tenant namespace.

The quota names every GPU resource of the environment, zero for those the tenant has no grant on. It
says `requests.<resource>`: a bare extended resource is accepted by the API server and never enforced.
CPU and memory are bounded by the tenant's share of the machines that it has slices of, so that no tenant
fills nodes on which others have slices too. Which quotas there are is in
`gpupool.environment.plan.tenant_quotas`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpupool.environment.plan.device_classes import uncounted_devices
from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.priority_classes import PlannedClass, highest_value, priority_classes
from gpupool.environment.plan.tenant_quotas import ALL, TenantQuota, quotas_of
from gpupool.environment.plan.tenants import DEFAULT_REQUESTS, NOTHING, Tenant
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import manifest_of, quantities

GRANTS, UP_TO, EXTRA = "gpupool.dev/grants", "gpupool.dev/up-to", "gpupool.dev/extra"
"""Annotations that say what the sums are made of: `pool/resource=count`, and `resource=quantity`."""


def generate(plan: Plan) -> Iterator[Manifest]:
    classes = priority_classes(plan)
    for tenant in plan.tenants:
        for quota in quotas_of(plan, tenant):
            yield _quota(plan, tenant, quota)
        yield from _priorities(plan, tenant, classes)
        yield _limits(plan, tenant)


def _quota(plan: Plan, tenant: Tenant, quota: TenantQuota) -> Manifest:
    compute = quota.requests.as_dict() if quota.requests else {}
    counts = {**quota.counts, **quota.extended}
    hard = quantities({f"requests.{resource}": count for resource, count in counts.items()})
    hard |= {f"requests.{key}": amount for key, amount in compute.items()}
    if quota.name == ALL:  # a scope by PriorityClass is of pods, and claims have none
        hard |= quantities(dict.fromkeys(uncounted_devices(plan.policies.limits.device_classes), 0))
    scope = {"scopeSelector": {"matchExpressions": [row]}} if (row := _scope(quota)) else {}
    return manifest_of(
        plan,
        "ResourceQuota",
        quota.name,
        tenant.namespace,
        pool=plan.pool(quota.pool) if quota.pool else None,
        tenant=tenant,
        annotations=_parts(tenant) if quota.name == ALL else None,
        spec={"hard": hard, **scope},
    )


def _scope(quota: TenantQuota) -> dict[str, Any]:
    """Of which PriorityClasses it counts the pods; empty: of all."""
    if quota.only is not None:
        return {"scopeName": "PriorityClass", "operator": "In", "values": sorted(quota.only)}
    if quota.never:
        return {"scopeName": "PriorityClass", "operator": "NotIn", "values": sorted(quota.never)}
    return {}


def _parts(tenant: Tenant) -> dict[str, str]:
    extra = tenant.extra.as_dict() if tenant.extra != NOTHING else {}
    words = {
        GRANTS: _counts(tenant.grants),
        UP_TO: _counts(tenant.up_to),
        EXTRA: " ".join(f"{name}={amount}" for name, amount in extra.items()),
    }
    return {name: text for name, text in words.items() if text}


def _counts(pools: Mapping[str, Mapping[str, int]]) -> str:
    rows = [f"{pool}/{name}={count}" for pool, counts in pools.items() for name, count in counts.items()]
    return " ".join(sorted(rows))


def _priorities(plan: Plan, tenant: Tenant, classes: Sequence[PlannedClass]) -> Iterator[Manifest]:
    """No pod with a priority above the tenant's highest: tenants that may use any priority could preempt the
    others."""
    highest = highest_value(plan, tenant)
    closed = [row.name for row in classes if highest is not None and row.value > highest]
    if closed:
        scope = {"scopeName": "PriorityClass", "operator": "In", "values": closed}
        spec = {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [scope]}}
        name = f"{ALL}-priorities"
        yield manifest_of(plan, "ResourceQuota", name, tenant.namespace, tenant=tenant, spec=spec)


def _limits(plan: Plan, tenant: Tenant) -> Manifest:
    """Requests for containers that state none, so that the scheduler knows something of every pod. No
    maximum for GPUs: a LimitRange maximum is also the default limit of every container without one."""
    limit = {"type": "Container", "defaultRequest": DEFAULT_REQUESTS.as_dict()}
    spec = {"limits": [limit]}
    return manifest_of(plan, "LimitRange", ALL, tenant.namespace, tenant=tenant, spec=spec)
