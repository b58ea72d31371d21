"""The Plan as JSON, which `gpupool show --format json` prints and which stack outputs are taken from."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.pool_cost import MonthlyCost, monthly_cost, total_monthly_cost
from gpupool.findings.json_output import JsonObject, Number, Share, read


def plan_json(plan: Plan) -> dict[str, Any]:
    """`plan` as values that JSON has."""
    result = _PlanJson.of(plan)
    # These are no attributes that a model could read; the models give their keys a place.
    for row, pool in zip(result["pools"], plan.pools, strict=True):
        row["monthlyUsd"] = _range(monthly_cost(pool))
    result["monthlyUsd"] = _range(total_monthly_cost(plan.pools))
    result["queue"]["slots"] = [
        {
            "pool": pool.name,
            "resource": name,
            "slots": count,
            "gpuEquivalent": float(pool.equivalents[name]),
        }
        for pool in plan.pools
        for name, count in pool.slices_max.items()
    ]
    return result


def _range(cost: MonthlyCost | None) -> dict[str, float | None]:
    return {"min": cost.floor, "max": cost.ceiling} if cost else {"min": None, "max": None}


_AsDict = Annotated[dict[str, Any], BeforeValidator(lambda value: value.as_dict())]


class _MachineJson(JsonObject):
    instance_type: str | None
    gpus: int
    slices: dict[str, int]
    usd_per_hour: Number | None
    size: _AsDict | None


class _CapacityJson(JsonObject):
    name: str
    capacity_type: str = read("type")
    max_nodes: int
    max_gpus: int


class _PoolJson(JsonObject):
    name: str
    gpu: str = read("gpu.key")
    mode: str = read("sharing.mode")
    nodes_max: int
    gpus_max: int
    warm: int
    jobs_only: bool
    overcommit: bool
    gpus_per_node: int
    slices_per_node: dict[str, int]
    gpu_equivalents: dict[str, Share] = read("equivalents")
    labels: dict[str, str]
    taints: list[_AsDict]
    monthly_usd: dict[str, Number | None] | None = None
    machines: list[_MachineJson]
    node_pools: list[_CapacityJson] = read("capacities")
    reserved: list[_AsDict]
    nodes: list[str] = read("node_names")
    node_selector: dict[str, str]


class _PriorityJson(JsonObject):
    name: str
    value: int
    level: str


class _ProjectJson(JsonObject):
    name: str
    id: str | None
    budget_usd: Number | None = read("budget.usd")


class _TenantJson(JsonObject):
    name: str
    id: str | None
    namespace: str
    projects: list[_ProjectJson]
    quota: dict[str, int]
    pools: dict[str, dict[str, int]] = read("grants")
    up_to: dict[str, dict[str, int]]
    requests: _AsDict | None
    weight: Number
    max_priority: str | None
    budget_usd: Number | None = read("budget.usd")


class _PlanJson(JsonObject):
    environment: str
    platform: str = read("cluster.platform")
    pools: list[_PoolJson]
    priorities: list[_PriorityJson]
    tenants: list[_TenantJson]
    queue: _AsDict
    monthly_usd: dict[str, Number | None] | None = None
