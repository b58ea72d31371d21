"""Pools of nodes that exist, on every platform: what the file may say of them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpupool.findings import SpecError
from gpupool.generators import generate
from tests.environment_files import environment_data, plan_of

BOUGHT: dict[str, Any] = {
    "name": "bought",
    "gpu": "l4",
    "labels": {"team": "ml"},
    "nodes": {"instanceTypes": ["g6.xlarge"], "max": 2, "zones": ["us-east-1a"]},
}
GROUP: dict[str, Any] = {
    "name": "group",
    "gpu": "l4",
    "nodes": {"selector": {"eks.amazonaws.com/nodegroup": "l4"}, "max": 2},
}


def environment(platform: str, *pools: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return environment_data(
        platform, cluster={"region": "us-east-1"}, pools=copy.deepcopy(list(pools)), **changes
    )


def test_existing_nodes_stand_beside_those_that_karpenter_starts() -> None:
    plan = plan_of(environment("eks", GROUP, BOUGHT))
    assert plan.has_existing_nodes
    assert [bool(pool.capacities) for pool in plan.pools] == [False, True]
    names = {
        (m.kind, m.name) for m in generate(plan) if m.kind in ("NodePool", "EC2NodeClass", "NodeOverlay")
    }
    assert {name for _, name in names} == {"bought"}


def test_without_pools_of_its_own_karpenter_is_not_asked_for() -> None:
    data = environment("eks", GROUP)
    del data["karpenter"]
    plan = plan_of(data)
    assert plan.karpenter is None
    assert not [release for release in generate(plan).releases if release.name == "karpenter"]


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({"karpenter.sh/nodepool": "x"}, "karpenter.sh/nodepool is on nodes that Karpenter starts"),
        ({"karpenter.k8s.aws/instance-gpu-name": "l4"}, "is on nodes that Karpenter starts"),
        ({"gpupool.dev/pool": "bought"}, "is on nodes that Karpenter starts"),
        ({"team": "ml"}, "starts for pool 'bought' can have these labels too"),
        ({"node.kubernetes.io/instance-type": "g6.xlarge"}, "have these labels too"),
        ({"topology.kubernetes.io/zone": "us-east-1a", "team": "ml"}, "have these labels too"),
        ({"topology.kubernetes.io/region": "us-east-1"}, "have these labels too"),
        ({"topology.k8s.aws/zone-id": "use1-az4"}, "have these labels too"),
        ({"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}, "have these labels too"),
        ({"beta.kubernetes.io/instance-type": "g6.xlarge"}, "have these labels too"),
        ({"nvidia.com/gpu.present": "true"}, "have these labels too"),
        ({"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"}, "have these labels too"),
    ],
)
def test_karpenters_own_nodes_are_not_taken_over(selector: dict[str, str], message: str) -> None:
    group = {**GROUP, "nodes": {"selector": selector, "max": 2}}
    with pytest.raises(SpecError) as error:
        plan_of(environment("eks", group, BOUGHT))
    (finding,) = error.value.findings
    assert (finding.path, message in finding.what) == ("pools[0].nodes.selector", True)


@pytest.mark.parametrize(
    "selector",
    [
        {"team": "ml", "eks.amazonaws.com/nodegroup": "l4"},
        {"team": "other"},
        {"topology.kubernetes.io/zone": "us-east-1b"},
        {"topology.kubernetes.io/region": "us-east-2"},
        {"kubernetes.io/arch": "arm64"},
        {"nvidia.com/gpu.product": "NVIDIA-L40S"},
        {"nvidia.com/gpu.present": "true", "node.kubernetes.io/instance-type": "g6.2xlarge"},
    ],
)
def test_a_selector_that_the_node_group_alone_fits_is_taken(selector: dict[str, str]) -> None:
    group = {**GROUP, "nodes": {"selector": selector, "max": 2}}
    assert plan_of(environment("eks", group, BOUGHT)).has_existing_nodes


@pytest.mark.parametrize(
    ("platform", "nodes", "field"),
    [
        ("eks", {"selector": {"a": "b"}, "max": 1, "instanceTypes": ["g6.xlarge"]}, "instanceTypes"),
        ("eks", {"names": ["n"], "warm": 1}, "warm"),
        ("eks", {"instanceTypes": ["g6.xlarge"], "max": 1, "gpus": 2}, "gpus"),
        ("gke", {"instanceTypes": ["g6.xlarge"], "max": 1}, "instanceTypes"),
        ("aks", {"selector": {"a": "b"}, "max": 1, "spotShare": 1}, "spotShare"),
    ],
)
def test_what_has_no_meaning_is_refused(platform: str, nodes: dict[str, Any], field: str) -> None:
    data = environment(platform, {"name": "p", "gpu": "l4", "nodes": nodes}, karpenter={"nodeRole": "r"})
    with pytest.raises(SpecError) as error:
        plan_of(data)
    assert f"pools[0].nodes.{field}" in {finding.path for finding in error.value.findings}


def gke(sharing: dict[str, Any], **changes: Any) -> dict[str, Any]:
    pool = {"name": "p", "gpu": "a100-40gb", "sharing": sharing, "nodes": {"selector": {"a": "b"}, "max": 2}}
    tenant = {"name": "a", "namespace": "team-a", "pools": {"p": {"gpus": 1}}}
    return environment("gke", pool, tenants=[tenant], **changes)


def test_where_the_cloud_shares_gpus_instances_have_one_name_and_nothing_of_the_operator_is_there() -> None:
    plan = plan_of(gke({"mode": "mig", "layout": {"1g.5gb": 7}}))
    (pool,), (tenant,) = plan.pools, plan.tenants
    assert pool.slices_per_node == {"nvidia.com/gpu": 7}
    assert tenant.quota == {"nvidia.com/gpu": 7}
    assert float(pool.equivalents["nvidia.com/gpu"]) == 1 / 8
    assert set(pool.labels) == {"gpupool.dev/pool"}
    assert [taint.key for taint in pool.tolerated] == ["gpupool.dev/pool", "nvidia.com/gpu"]
    objects = generate(plan)
    assert not objects.releases
    assert not [m for m in objects if m.namespace == "gpu-operator" or m.name == "gpu-operator"]


@pytest.mark.parametrize(
    ("sharing", "changes", "message"),
    [
        ({"mode": "mig", "layout": {"3g.20gb": 1, "2g.10gb": 2}}, {}, "one profile, as many times as fits"),
        ({"mode": "mig", "layout": {"1g.5gb": 6}}, {}, "one profile, as many times as fits"),
        ({"mode": "time-slicing", "replicas": 49}, {}, "2 to 48 pods, not 49"),
        (
            {"mode": "exclusive"},
            {"gpuOperator": {"install": False}},
            "gpuOperator has no effect on platform gke",
        ),
    ],
)
def test_bounds_of_its_node_pools_hold(
    sharing: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError) as error:
        plan_of(gke(sharing, **changes))
    assert [message in finding.what for finding in error.value.findings] == [True]
