"""ResourceQuotas and LimitRange per tenant namespace.

The quota names every GPU resource of the environment, zero for those the tenant has no grant on. It
says `requests.<resource>`: a bare extended resource is accepted by the API server and never enforced.
A namespace's quota can't tell two pools of one resource apart; policies and the queue do.
"""

from __future__ import annotations

from collections.abc import Iterator

from generators.manifest import Manifest
from generators.metadata import metadata, quantities
from gpupool.plan import Plan, Tenant

NAME = "gpupool"


def generate(plan: Plan) -> Iterator[Manifest]:
    for tenant in plan.tenants:
        yield _quota(plan, tenant)
        yield from _priorities(plan, tenant)
        yield _limits(plan, tenant)


def _quota(plan: Plan, tenant: Tenant) -> Manifest:
    counts = {f"requests.{resource}": tenant.quota.get(resource, 0) for resource in plan.resources}
    return Manifest(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata(plan, NAME, tenant.namespace, tenant=tenant),
            "spec": {"hard": quantities(counts)},
        }
    )


def _priorities(plan: Plan, tenant: Tenant) -> Iterator[Manifest]:
    """No pod with a priority above the tenant's highest: whoever may use any could push the others out."""
    names = [priority.name for priority in plan.priorities]
    above = names[: names.index(tenant.max_priority)] if tenant.max_priority in names else []
    if above:
        scope = {"scopeName": "PriorityClass", "operator": "In", "values": above}
        yield Manifest(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": metadata(plan, f"{NAME}-priorities", tenant.namespace, tenant=tenant),
                "spec": {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [scope]}},
            }
        )


def _limits(plan: Plan, tenant: Tenant) -> Manifest:
    """Requests for containers that state none, so that the scheduler knows something of every pod. No
    maximum for GPUs: a LimitRange maximum is also the default limit of every container without one."""
    return Manifest(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": metadata(plan, NAME, tenant.namespace, tenant=tenant),
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m", "memory": "256Mi"}}]},
        }
    )
