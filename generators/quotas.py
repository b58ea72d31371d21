"""ResourceQuotas and LimitRange per tenant namespace.

The quota names every GPU resource of the environment, zero for those the tenant has no grant on. It
says `requests.<resource>`: a bare extended resource is accepted by the API server and never enforced.
CPU and memory are bounded by the tenant's share of the machines that it has slices of, so that no tenant
fills nodes on which others have slices too. A namespace's quota can't distinguish two pools of one resource;
policies and the queue do.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import manifest_of, quantities
from gpupool.plan.model import Plan
from gpupool.plan.tenants import DEFAULT_REQUESTS, NOTHING, Tenant

NAME = "gpupool"
GRANTS, EXTRA = "gpupool.dev/grants", "gpupool.dev/extra"
"""Annotations that say what the sums are made of: `pool/resource=count`, and `resource=quantity`."""


def generate(plan: Plan) -> Iterator[Manifest]:
    for tenant in plan.tenants:
        yield _quota(plan, tenant)
        yield from _priorities(plan, tenant)
        yield _limits(plan, tenant)


def _quota(plan: Plan, tenant: Tenant) -> Manifest:
    counts = {f"requests.{resource}": tenant.quota.get(resource, 0) for resource in plan.resources}
    compute = tenant.requests.as_dict() if tenant.requests else {}
    return manifest_of(
        plan,
        "ResourceQuota",
        NAME,
        tenant.namespace,
        tenant=tenant,
        annotations=_parts(tenant),
        spec={"hard": quantities(counts) | {f"requests.{name}": n for name, n in compute.items()}},
    )


def _parts(tenant: Tenant) -> dict[str, str]:
    grants = [
        f"{pool}/{resource}={count}"
        for pool, grant in tenant.grants.items()
        for resource, count in grant.items()
    ]
    extra = tenant.extra.as_dict() if tenant.extra != NOTHING else {}
    words = {
        GRANTS: " ".join(sorted(grants)),
        EXTRA: " ".join(f"{name}={amount}" for name, amount in extra.items()),
    }
    return {name: text for name, text in words.items() if text}


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
