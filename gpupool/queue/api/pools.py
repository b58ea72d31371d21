"""Pools and who holds their slots, manifests for them, and which pool suits a piece of work (D8).

Jobs of tenants that the caller does not act for are shown without their name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel

from gpupool.environment.plan.model import Pool
from gpupool.environment.plan.pool_cost import HOURS_PER_MONTH
from gpupool.findings import UsageError
from gpupool.generators.snippet.wish import wish
from gpupool.generators.snippet.workloads import workload
from gpupool.queue.api.accept import scope_of, tenant_of
from gpupool.queue.api.answers import OfferBody, offer_json, usd
from gpupool.queue.api.auth import Reader
from gpupool.queue.api.context import RequestContext
from gpupool.queue.api.jobs import Chosen, Present
from gpupool.queue.api.problems import ApiProblem
from gpupool.queue.domain.borrowing import GrantUsage, grant_usages
from gpupool.queue.domain.recommend import recommend, reserved_hint
from gpupool.queue.domain.state import Held
from gpupool.queue.domain.supply import PoolSupply
from gpupool.queue.records import MICRO, Principal

router = APIRouter(prefix="/api/v1", tags=["pools"])


class HeldBody(BaseModel):
    """Slots in use. Tenant and job are null if they are not the caller's; a tenant's own pods have no job."""

    resource: str
    units: int
    tenant: str | None
    job: str | None


class NodeBody(BaseModel):
    """A node that the pool may have; it need not exist at the moment."""

    number: int
    capacity_type: str
    slots: dict[str, int]
    held: list[HeldBody]


class SlotBody(BaseModel):
    resource: str
    total: int
    held: int
    free: int
    gpus_each: float
    usd_per_hour: float
    spot_usd_per_hour: float | None


class GrantBody(BaseModel):
    """Quota and usage of a resource by one of the caller's tenants, in units."""

    tenant: str
    resource: str
    granted: int
    up_to: int
    """The grant plus what the tenant may borrow."""
    held: int
    borrowed: int
    """Units in use beyond the grant."""
    lending: int
    """Units of the idle part of the grant that other tenants have borrowed."""


class PoolBody(BaseModel):
    name: str
    description: str
    gpu: str
    mode: str
    slots: list[SlotBody]
    nodes: list[NodeBody]
    grants: list[GrantBody]
    reserved: bool
    """Whether it is reserved for a waiting job."""


class PoolList(BaseModel):
    pools: list[PoolBody]


class RecommendationBody(OfferBody):
    memory_gib: float
    isolated: bool
    why: str


class RecommendationList(BaseModel):
    recommendations: list[RecommendationBody]
    """Best first."""
    reserved_hint: str | None
    """Set if reserved capacity would be cheaper for this many hours a month."""


@router.get("/pools", operation_id="pools", response_model=PoolList)
async def pools(context: Present, principal: Reader, choice: Chosen) -> dict[str, Any]:
    """The pools that the caller's tenants may use, with each node's slots and their holders."""
    seen = await context.explanations.snapshot(context.clock())
    supply = context.current().supply
    uses = [
        use
        for use in grant_usages(supply, seen.held)
        if principal.acts_for(use.tenant) or "admin" in principal.scopes
    ]
    listed = [
        _pool(pool, supply.pools[pool.name], seen.held, principal, pool.name in seen.reservations)
        | {"grants": [_grant(use) for use in uses if use.pool == pool.name]}
        for pool in pools_of(context, principal, choice.tenant)
    ]
    return {"pools": listed}


def _grant(use: GrantUsage) -> dict[str, Any]:
    names = ("tenant", "resource", "granted", "up_to", "held", "borrowed", "lending")
    return {name: getattr(use, name) for name in names}


def pools_of(context: RequestContext, principal: Principal, tenant: str | None) -> list[Pool]:
    """Those that the tenant that was chosen may use, or any tenant of the caller's."""
    plan, scope = context.plan(), scope_of(principal, tenant)
    if scope is None:
        return list(plan.pools)
    granted = {name for one in plan.tenants if one.name in scope for name in one.grants}
    return [pool for pool in plan.pools if pool.name in granted]


def _pool(
    pool: Pool, supply: PoolSupply, held: Iterable[Held], principal: Principal, reserved: bool
) -> dict[str, Any]:
    by_node: dict[int, list[dict[str, Any]]] = {}
    used: dict[str, int] = {}
    for job in held:
        if job.pool != pool.name:
            continue
        mine = principal.acts_for(job.tenant) or "admin" in principal.scopes
        used[job.resource] = used.get(job.resource, 0) + job.units
        for node, units in job.placement:
            id = job.job if mine and job.of_queue else None
            shown = {"tenant": job.tenant if mine else None, "job": id}
            by_node.setdefault(node, []).append({"resource": job.resource, "units": units, **shown})
    spot = supply.spot_rate_micro
    return {
        "name": pool.name,
        "description": pool.description,
        "gpu": pool.gpu.key,
        "mode": pool.sharing.mode,
        "slots": [
            {
                "resource": resource,
                "total": supply.slots(resource),
                "held": used.get(resource, 0),
                "free": max(0, supply.slots(resource) - used.get(resource, 0)),
                "gpus_each": micro / MICRO,
                "usd_per_hour": usd(supply.rate_micro[resource]),
                "spot_usd_per_hour": usd(spot[resource]) if spot else None,
            }
            for resource, micro in supply.gpu_micro.items()
        ],
        "nodes": [
            {
                "number": node.number,
                "capacity_type": node.capacity_type,
                "slots": dict(node.slots),
                "held": by_node.get(node.number, []),
            }
            for node in supply.nodes
        ],
        "reserved": reserved,
    }


@router.get("/pools/{pool}/snippet", operation_id="snippet", response_model=dict[str, Any])
async def snippet(
    context: Present,
    principal: Reader,
    choice: Chosen,
    pool: Annotated[str, Path(max_length=200)],
    kind: Annotated[Literal["pod", "job", "raycluster"], Query(alias="for")] = "pod",
    gpu_count: Annotated[int, Query(ge=1, le=1024, description="GPUs or slices of each pod.")] = 1,
    profile: Annotated[str | None, Query(max_length=100, description="MIG profile.")] = None,
    min_workers: Annotated[int, Query(ge=0, le=10_000, description="For raycluster.")] = 0,
    max_workers: Annotated[int, Query(ge=1, le=10_000, description="For raycluster.")] = 2,
) -> dict[str, Any]:
    """A manifest for a pool; fill in image and command. Nothing is submitted, and no slot is reserved."""
    current = context.current()
    plan, tenant = current.plan, tenant_of(current, principal, choice.tenant)
    if pool not in tenant.grants:
        raise ApiProblem("not-found", f"tenant {tenant.name} has no pool {pool!r}")
    if min_workers > max_workers:
        raise ApiProblem("invalid-request", "min_workers is more than max_workers")
    try:
        made = workload(wish(plan, pool, gpu_count, profile, tenant.name), kind)
    except UsageError as error:
        raise ApiProblem("invalid-request", str(error)) from None
    if kind == "raycluster":
        (workers,) = made["spec"]["workerGroupSpecs"]
        workers |= {"replicas": min_workers, "minReplicas": min_workers, "maxReplicas": max_workers}
        if min_workers == max_workers:
            del made["spec"]["enableInTreeAutoscaling"]
    return made


@router.get("/recommendations", operation_id="recommendations", response_model=RecommendationList)
async def recommendations(
    context: Present,
    principal: Reader,
    choice: Chosen,
    memory_gib: Annotated[float, Query(gt=0, le=100_000, description="GPU memory that the workload needs.")],
    kind: Literal["training", "inference", "interactive"] = "training",
    gpus: Annotated[int, Query(ge=1, le=1024)] = 1,
    hours_per_month: Annotated[float, Query(ge=0, le=HOURS_PER_MONTH, description="For the hint.")] = 0,
) -> dict[str, Any]:
    """The cheapest pools that fit a workload, with the price of each alternative."""
    current = context.current()
    tenant = tenant_of(current, principal, choice.tenant)
    found = recommend(current.plan, current.supply, tenant, memory_gib, kind, gpus)
    hint = reserved_hint(hours_per_month, usd(found[0].offer.rate_micro)) if found else None
    listed = [
        {
            **offer_json(recommendation.offer),
            "memory_gib": recommendation.memory_gib,
            "isolated": recommendation.isolated,
            "why": recommendation.why,
        }
        for recommendation in found
    ]
    return {"recommendations": listed, "reserved_hint": hint}
