"""What policies judge by is what the Plan says, and a changed grant changes none of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from gpupool.environment.plan.model import SYSTEM_NAMESPACE, Plan
from gpupool.environment.plan.pods import BORROWED_CLASS
from gpupool.environment.plan.priority_classes import counted_apart
from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.load import environment_names
from gpupool.generators import policy_parameters
from gpupool.generators.policy_parameters import LIMITS, OWNERS, POOLS, TENANTS
from tests.environment_files import Data, environment_data, plan_of
from tests.environment_strategies import environments
from tests.examples import examples


def data_of(plan: Plan) -> dict[str, dict[str, str]]:
    found = list(policy_parameters.generate(plan))
    assert {manifest.namespace for manifest in found} == {SYSTEM_NAMESPACE}, "where no tenant's role reaches"
    return {manifest.name: dict(manifest.body["data"]) for manifest in found}


def counts(text: str) -> dict[str, int]:
    """`name=count` apart by spaces, as the policies read it."""
    pairs = (item.split("=") for item in text.split(" ") if item)
    return {name: int(count) for name, count in pairs}


@examples("environments", 100)
@given(environments())
def test_pools_are_those_of_the_plan(environment: Data) -> None:
    plan = plan_of(environment)
    data = data_of(plan)[POOLS]
    assert data["pools"].split() == sorted(pool.name for pool in plan.pools)
    for pool in plan.pools:
        assert counts(data[f"resources.{pool.name}"]) == dict(pool.slices_per_node)
        assert data[f"sharing.{pool.name}"] == pool.sharing.mode
        repelling = [taint for taint in pool.taints if taint.effect != "PreferNoSchedule"]
        read = [text.partition("=") for text in data[f"taints.{pool.name}"].split(" ") if text]
        assert [(key, *rest.split(":")) for key, _, rest in read] == [
            (taint.key, taint.value, taint.effect) for taint in repelling
        ]
        whole = data[f"lends-whole-gpus.{pool.name}"] == "true"
        assert whole == (pool.sharing.mode == "time-slicing" and all(m.gpus == 1 for m in pool.machines))
        shared = f"memory.{pool.name}" in data
        assert shared == (pool.sharing.mode == "time-slicing")
        if shared:
            part = int(data[f"memory.{pool.name}"].removesuffix("Mi"))
            (slices,) = pool.sharing.slices_per_gpu(pool.gpu).values()
            assert part * slices <= pool.gpu.memory_mib < (part + 1) * slices


@examples("environments", 100)
@given(environments())
def test_what_is_granted_is_within_what_policies_allow(environment: Data) -> None:
    """So that no environment is refused by its own policy on quotas."""
    plan = plan_of(environment)
    data = data_of(plan)
    capacity = counts(data[POOLS]["capacity"])
    for tenant in plan.tenants:
        assert data[TENANTS][f"pools.{tenant.namespace}"].split() == sorted(tenant.grants)
        for resource, count in tenant.quota.items():
            assert count <= capacity[resource]
        allowed = counts(data[TENANTS][f"priorities.{tenant.namespace}"])
        assert (tenant.max_priority in allowed) == bool(plan.priorities)
        if tenant.max_priority:
            highest = max(allowed.values())
            assert highest == allowed[tenant.max_priority] == next(iter(allowed.values()))
            above = {priority.name for priority in plan.priorities if priority.value > highest}
            assert not above & set(allowed)


def test_owned_keys_are_all_that_pools_put_on_nodes() -> None:
    for name in environment_names():
        plan = read_plan(name)
        data = data_of(plan)[OWNERS]
        for pool in plan.pools:
            assert set(pool.labels) <= set(data["labels"].split())
            assert {taint.key for taint in pool.taints} <= set(data["taints"].split())
        queued = {f"{priority.name}-queued" for priority in plan.priorities if priority.preempts}
        queued |= {BORROWED_CLASS} if plan.allows_borrowing else set()
        pools = {pool for tenant in plan.tenants for pool in counted_apart(plan, tenant)}
        assert set(data["queueClasses"].split()) == queued | {
            f"{name}.{pool}" for name in queued for pool in pools
        }
        local = plan.cluster.platform == "local"
        assert data["queueAnnotations"] == ("" if local else "gpupool.dev/run-locally")


def test_limits_are_in_seconds() -> None:
    limits: dict[str, Any] = {
        "registries": ["a.example", "b.example/ml"],
        "jobDeadline": "1h30m",
        "jobTtl": "90s",
        "deviceClasses": ["rdma.example.com", "card.example.com"],
    }
    limits |= {"jobRetries": 0, "budgetAfter": "2562047h"}
    data = data_of(plan_of(environment_data("local", policies={"limits": limits})))[LIMITS]
    assert data == {
        "registries": "a.example/ b.example/ml/",
        "deviceClasses": "card.example.com rdma.example.com",
        "gpuClasses": "gpu.nvidia.com mig.nvidia.com vfio.gpu.nvidia.com",
        "scope": "gpu",
        "jobTtlSeconds": "90",
        "jobDeadlineSeconds": "5400",
        "jobRetries": "0",
        "budgetAfterSeconds": str(2562047 * 3600),
    }


def test_a_changed_grant_changes_no_parameter() -> None:
    environment: Data = environment_data(
        "local",
        pools=[{"name": "p", "gpu": "t4", "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 2}}],
        tenants=[{"name": "t", "namespace": "t", "pools": {"p": {"gpus": 2}}}],
    )
    before = data_of(plan_of(environment))
    environment["tenants"][0]["pools"]["p"]["gpus"] = 1
    assert data_of(plan_of(environment)) == before
