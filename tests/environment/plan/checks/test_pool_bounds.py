"""How large a pool may get: nodes where machines have one size, physical GPUs where they differ."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.environment.plan.model import Pool
from gpupool.environment.plan.pool_cost import monthly_cost
from gpupool.findings import SpecError
from gpupool.queue.domain.supply import supply_of
from tests.environment_files import environment_data, plan_of

MIXED = ["g6.xlarge", "g6.12xlarge"]
LARGE = ["g6.12xlarge", "g6.48xlarge"]


def environment(**nodes: Any) -> dict[str, Any]:
    pool = {"name": "p", "gpu": "l4", "nodes": {"instanceTypes": MIXED, **nodes}}
    return environment_data("local", pools=[pool])


def pool(**nodes: Any) -> Pool:
    return plan_of(environment(**nodes)).pools[0]


@pytest.mark.parametrize(
    ("nodes", "path", "message", "hint"),
    [
        ({"max": 3}, "max", "max 3 can't be enforced with machines of 1 and 4 GPUs", "maxGpus: 12"),
        ({"max": 2, "instanceTypes": LARGE}, "max", "machines of 4 and 8 GPUs", "maxGpus: 16"),
        ({}, "maxGpus", 'field "maxGpus" is missing', "the maximum number of GPUs"),
        ({"instanceTypes": ["g6.xlarge"]}, "max", 'field "max" is missing', "the maximum number of nodes"),
        ({"max": 3, "maxGpus": 12}, "max", "max 3 and maxGpus 12 both", "remove max"),
        ({"maxGpus": 2}, "maxGpus", "no machine with 4 GPUs fits in 2", "at least 4"),
        ({"maxGpus": 10, "instanceTypes": LARGE}, "maxGpus", "not a multiple of 4", "use 8 or 12"),
        ({"maxGpus": 12, "instanceTypes": ["g6.48xlarge"]}, "maxGpus", "not a multiple of 8", "use 8 or 16"),
        ({"maxGpus": 4, "warm": 5}, "warm", "5 warm nodes exceed the maximum of 4", "raise maxGpus"),
        ({"maxGpus": 7, "spotShare": 0.5}, "spotShare", "7 GPUs and machines of 4", "raise maxGpus to 8"),
    ],
)
def test_a_bound_that_can_not_be_kept_is_refused(
    nodes: dict[str, Any], path: str, message: str, hint: str
) -> None:
    with pytest.raises(SpecError) as refused:
        pool(**nodes)
    (finding,) = refused.value.findings
    assert finding.path == f"pools[0].nodes.{path}"
    assert message in finding.what
    assert hint in finding.remediation


def test_machines_of_several_sizes_are_bounded_by_slices_alone() -> None:
    mixed = pool(maxGpus=14, spotShare=0.5)
    limits = {capacity.type: dict(mixed.limits(capacity)) for capacity in mixed.capacities}
    assert limits == {"on-demand": {"nvidia.com/gpu": 7}, "spot": {"nvidia.com/gpu": 7}}
    assert (mixed.gpus_max, mixed.nodes_max, mixed.limit_field) == (14, 14, "nodes.maxGpus")
    alike = pool(maxGpus=8, instanceTypes=["g6.12xlarge"])
    assert dict(alike.limits(alike.capacities[0])) == {"nodes": 2, "nvidia.com/gpu": 8}


def test_the_queue_counts_on_as_many_of_the_largest_machines_as_there_are_gpus_for() -> None:
    supply = supply_of(plan_of(environment(maxGpus=14))).pools["p"]
    assert [node.slots["nvidia.com/gpu"] for node in supply.nodes] == [4, 4, 4, 1, 1]


def test_the_highest_cost_is_that_of_the_dearest_machines_within_the_bound() -> None:
    mixed = pool(maxGpus=6)
    small, large = (machine.usd_per_hour or 0 for machine in mixed.machines)
    cost = monthly_cost(mixed)
    assert cost is not None
    assert cost.ceiling == pytest.approx(730 * max(6 * small, large + 2 * small), abs=0.01)


@pytest.mark.parametrize(
    "name",
    [
        *("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"),
        *("requests.foo/x", "kubernetes.io/batch", "deviceclass.resource.kubernetes.io/foo"),
    ],
)
def test_resources_of_gpus_and_of_kubernetes_are_no_extended_resources(name: str) -> None:
    with pytest.raises(SpecError) as refused:
        pool(maxGpus=4, extendedResources={name: 8})
    (finding,) = refused.value.findings
    assert name in finding.path
    assert name in finding.what


@pytest.mark.parametrize("name", ["rdma/hca", "vpc.amazonaws.com/efa", "nvidia.com/hostdev"])
def test_extended_resources_of_a_machine_are_accepted(name: str) -> None:
    assert plan_of(environment(maxGpus=4, extendedResources={name: 8})).extended_resources == (name,)
