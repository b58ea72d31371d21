"""Which pool, how much of it and whose: checked against the Plan, with defaults where there is one answer."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.environment.catalog.models import mig_resource
from gpupool.environment.plan.model import Plan, Pool
from gpupool.environment.plan.tenants import Tenant, memory_quantity
from gpupool.findings import UsageError
from vapcheck import amount


@dataclass(frozen=True, slots=True)
class SnippetRequest:
    plan: Plan
    pool: Pool
    resource: str
    count: int
    tenant: Tenant | None
    """Whose namespace; None where no tenant may use the pool."""
    shm: str | None = None
    """Size of shared memory, a quantity; None: a share of the pod's memory."""
    scratch: str | None = None
    """Room in the scratch folder, likewise; None: what comes with the slices of the node's disk."""


def wish(
    plan: Plan,
    pool: str,
    slices: int | None = None,
    profile: str | None = None,
    tenant: str | None = None,
    shm: str | None = None,
    scratch: str | None = None,
) -> SnippetRequest:
    """What is asked for. Without `tenant`, the first that may use the pool. Raises UsageError, which names
    what there is instead."""
    chosen = next((one for one in plan.pools if one.name == pool), None)
    if chosen is None:
        names = ", ".join(one.name for one in plan.pools) or "none"
        raise UsageError(f"no pool {pool!r} in environment {plan.environment}; pools: {names}")
    resource = _resource(chosen, profile)
    count = 1 if slices is None else slices
    most = 1 if chosen.sharing.one_slice else chosen.slices_per_node[resource]
    if not 1 <= count <= most:
        why = "a container gets one slice of a shared GPU" if most == 1 else "the largest node has no more"
        raise UsageError(f"--slices {count}: a pod on pool {pool} gets at most {most} {resource}; {why}")
    share = chosen.share(resource)
    _check_size("--shm-size", shm, share.memory_mib * count if share else None, "memory")
    _check_size("--scratch-size", scratch, chosen.disk_share_mib(resource) * count, "its node's disk")
    return SnippetRequest(plan, chosen, resource, count, _tenant(plan, chosen, tenant), shm, scratch)


def _check_size(option: str, given: str | None, room_mib: int | None, what: str) -> None:
    if given is None:
        return
    size = amount(given)
    if size is None or size < 2**20:
        raise UsageError(f"{option} {given}: write a size such as 512Mi or 8Gi")
    if room_mib is not None and size > room_mib * 2**20:
        raise UsageError(f"{option} {given}: the pod has {memory_quantity(room_mib)} of {what}")


def _resource(pool: Pool, profile: str | None) -> str:
    offered = list(pool.slices_per_node)
    if not pool.sharing.layout:
        if profile is not None:
            raise UsageError(f"--profile {profile}: pool {pool.name} is not partitioned; remove --profile")
        return offered[0]
    profiles = {name: mig_resource(name) for name in pool.sharing.layout}
    if profile is None and len(profiles) == 1:
        return offered[0]
    if profile not in profiles:
        what = "several profiles" if profile is None else f"no profile {profile}"
        raise UsageError(f"pool {pool.name} has {what}; add --profile with one of: {', '.join(profiles)}")
    return profiles[profile]


def _tenant(plan: Plan, pool: Pool, name: str | None) -> Tenant | None:
    granted = [tenant for tenant in plan.tenants if pool.name in tenant.grants]
    if name is None:
        return granted[0] if granted else None
    found = next((tenant for tenant in granted if tenant.name == name), None)
    if found is None:
        names = ", ".join(tenant.name for tenant in granted) or "none"
        raise UsageError(f"--tenant {name}: no such tenant with pool {pool.name}; tenants: {names}")
    return found
