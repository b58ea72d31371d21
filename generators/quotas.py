"""ResourceQuotas and LimitRange per tenant namespace.

The quota names every GPU resource of the environment, zero for those the tenant has no grant on. It
says `requests.<resource>`: a bare extended resource is accepted by the API server and never enforced.
CPU and memory are bounded by the tenant's share of the machines that it has slices of, so that no tenant
fills nodes on which others have slices too. A namespace's quota can't distinguish two pools of one resource;
policies and the queue do. Where a tenant may borrow, a second quota holds all but borrowed jobs to what is
granted, so that its own pods borrow nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import manifest_of, quantities
from gpupool.plan.device_classes import UNCOUNTED_DEVICES
from gpupool.plan.model import Plan
from gpupool.plan.pods import BORROWED_CLASS
from gpupool.plan.tenants import DEFAULT_REQUESTS, NOTHING, MachineShare, Tenant

NAME, GRANTED = "gpupool", "gpupool-granted"
GRANTS, UP_TO, EXTRA = "gpupool.dev/grants", "gpupool.dev/up-to", "gpupool.dev/extra"
"""Annotations that say what the sums are made of: `pool/resource=count`, and `resource=quantity`."""
_NOT_BORROWED = {"scopeName": "PriorityClass", "operator": "NotIn", "values": [BORROWED_CLASS]}


def generate(plan: Plan) -> Iterator[Manifest]:
    for tenant in plan.tenants:
        yield from _quotas(plan, tenant)
        yield from _priorities(plan, tenant)
        yield _limits(plan, tenant)


def quotas_of(tenant: Tenant) -> dict[str, tuple[Mapping[str, int], MachineShare | None]]:
    """Name of each quota that counts a tenant's GPUs -> extended resource -> count, with CPU and memory. What
    is borrowed counts in the first alone."""
    if not tenant.up_to:
        return {NAME: (tenant.quota, tenant.requests)}
    return {
        NAME: (tenant.quota_up_to, tenant.requests_up_to),
        GRANTED: (tenant.quota, tenant.requests),
    }


def _quotas(plan: Plan, tenant: Tenant) -> Iterator[Manifest]:
    for name, (granted, share) in quotas_of(tenant).items():
        counts = {f"requests.{resource}": granted.get(resource, 0) for resource in plan.resources}
        if name == NAME:  # a scope by PriorityClass is of pods, and claims have none
            counts |= dict.fromkeys(UNCOUNTED_DEVICES, 0)
        compute = share.as_dict() if share else {}
        hard = quantities(counts) | {f"requests.{key}": amount for key, amount in compute.items()}
        scope = {"scopeSelector": {"matchExpressions": [_NOT_BORROWED]}} if name == GRANTED else {}
        yield manifest_of(
            plan,
            "ResourceQuota",
            name,
            tenant.namespace,
            tenant=tenant,
            annotations=_parts(tenant) if name == NAME else None,
            spec={"hard": hard, **scope},
        )


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


def _priorities(plan: Plan, tenant: Tenant) -> Iterator[Manifest]:
    """No pod with a priority above the tenant's highest: tenants that may use any priority could preempt the
    others."""
    names = [priority.name for priority in plan.priorities]
    above = plan.priorities[: names.index(tenant.max_priority)] if tenant.max_priority in names else ()
    if above:
        closed = list(dict.fromkeys(name for one in above for name in (one.name, one.queue_class)))
        scope = {"scopeName": "PriorityClass", "operator": "In", "values": closed}
        spec = {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [scope]}}
        name = f"{NAME}-priorities"
        yield manifest_of(plan, "ResourceQuota", name, tenant.namespace, tenant=tenant, spec=spec)


def _limits(plan: Plan, tenant: Tenant) -> Manifest:
    """Requests for containers that state none, so that the scheduler knows something of every pod. No
    maximum for GPUs: a LimitRange maximum is also the default limit of every container without one."""
    limit = {"type": "Container", "defaultRequest": DEFAULT_REQUESTS.as_dict()}
    spec = {"limits": [limit]}
    return manifest_of(plan, "LimitRange", NAME, tenant.namespace, tenant=tenant, spec=spec)
