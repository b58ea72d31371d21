"""What a cluster shows: whose operator and Karpenter it is, nodes that are alike, quotas and priorities."""

from __future__ import annotations

from typing import Any

import yaml

from gpupool.adopt.convert.convert import Conversion, convert
from gpupool.adopt.convert.documents import of_cluster
from gpupool.adopt.convert.draft import Choices

OURS = {"app.kubernetes.io/managed-by": "gpupool"}


def thing(
    kind: str, name: str, api: str = "v1", namespace: str | None = None, **fields: Any
) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    labels = fields.pop("labels", {})
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **where, "labels": labels}, **fields}


def node(
    name: str, product: str, gpus: int = 1, labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    found = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(gpus), **(labels or {})}
    return thing("Node", name, labels=found, spec=spec)


def node_pool(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    types = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}
    bought = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    template = {"spec": {"requirements": [types, bought], "expireAfter": "Never"}}
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10m"}
    spec = {"limits": {"nodes": "2"}, "disruption": disruption, "template": template}
    return thing("NodePool", name, "karpenter.sh/v1", labels=labels or {}, spec=spec)


def policy(**spec: Any) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "gpu-operator-v26.7.0"}
    return thing("ClusterPolicy", "cluster-policy", "nvidia.com/v1", labels=labels, spec=spec)


def imported(*objects: dict[str, Any]) -> tuple[Any, Conversion]:
    result = convert(
        of_cluster(objects, "context lab"), Choices(name="lab", region="us-east-1", cluster="lab")
    )
    assert result.findings == ()
    return yaml.safe_load(result.text), result


def kinds(result: Conversion) -> set[str]:
    return {entry.category for entry in result.leftovers}


def test_an_operator_that_gpupool_installs_is_not_pinned_to_its_chart() -> None:
    driver = {"enabled": True, "version": "595.91.07", "repository": "nvcr.io/nvidia", "image": "driver"}
    here = thing("Namespace", "gpu-operator", labels=OURS)
    data, result = imported(
        here, policy(driver=driver, toolkit={"version": "v1.20.0"}), node("a", "NVIDIA-L4")
    )
    assert data["gpuOperator"] == {"version": "v26.7.0"}
    assert kinds(result) == {"assumed"} or not result.leftovers


def test_an_operator_of_somebody_else_is_left_alone() -> None:
    data, _ = imported(policy(driver={"enabled": False}), node("a", "NVIDIA-L4"))
    assert data["gpuOperator"] == {"version": "v26.7.0", "install": False}


def test_karpenter_of_somebody_else_is_left_alone() -> None:
    data, _ = imported(node_pool("gpu"))
    assert data["karpenter"]["install"] is False
    data, _ = imported(node_pool("gpu", OURS))
    assert "install" not in data["karpenter"]


def test_nodes_that_are_alike_are_one_pool() -> None:
    data, _ = imported(
        node("b", "NVIDIA-L4", 2),
        node("a", "NVIDIA-L4", 2),
        node("c", "NVIDIA-L4", 4),
        node("d", "Tesla-T4", 2, taints=[{"key": "gpu", "effect": "NoSchedule"}]),
        node("e", "Tesla-T4", 2, taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]),
        node("f", "Tesla-T4", 2),
        node("g", "NVIDIA-L4", 2, labels={"karpenter.sh/nodepool": "x"}),
        thing("Node", "plain"),
    )
    found = {
        (pool["gpu"], tuple(pool["nodes"]["names"]), pool["nodes"].get("gpus")) for pool in data["pools"]
    }
    assert found == {("l4", ("a", "b"), 2), ("l4", ("c",), 4), ("t4", ("d",), 2), ("t4", ("e", "f"), 2)}
    assert len({pool["name"] for pool in data["pools"]}) == 4


def test_an_unknown_gpu_is_to_do() -> None:
    _, result = imported(node("a", "NVIDIA-L4"), node("b", "Quadro-K2000"))
    assert [(entry.category, entry.object) for entry in result.leftovers if entry.category == "todo"] == [
        ("todo", "Node b")
    ]


def test_a_quota_above_what_there_is_gives_what_there_is() -> None:
    quota = thing("ResourceQuota", "gpus", namespace="team", spec={"hard": {"requests.nvidia.com/gpu": "9"}})
    data, result = imported(node("a", "NVIDIA-L4", 4), thing("Namespace", "team"), quota)
    assert data["tenants"] == [{"name": "team", "namespace": "team", "pools": {"l4": {"gpus": 4}}}]
    assert any("5 more than the maximum of all pools" in entry.what for entry in result.leftovers)


def test_what_no_object_shows_of_tenants_is_reported_at_a_tenant() -> None:
    quota = thing("ResourceQuota", "gpus", namespace="team", spec={"hard": {"requests.nvidia.com/gpu": "1"}})
    _, result = imported(
        thing("Namespace", "default"), node("a", "NVIDIA-L4"), thing("Namespace", "team"), quota
    )
    reported = [entry.object for entry in result.leftovers if "complete `tenants`" in entry.remediation]
    assert reported == ["Namespace team"]


def test_priorities_keep_their_order_and_their_levels_fall() -> None:
    api = "scheduling.k8s.io/v1"
    data, result = imported(
        node("a", "NVIDIA-L4"),
        thing(
            "PriorityClass",
            "low",
            api,
            value=5,
            labels={"gpupool.dev/level": "low"},
            preemptionPolicy="Never",
        ),
        thing("PriorityClass", "top", api, value=50),
        thing("PriorityClass", "same", api, value=50),
        thing("PriorityClass", "system-node-critical", api, value=2000001000),
    )
    assert [(row["name"], row["value"]) for row in data["priorities"]] == [("top", 50), ("low", 5)]
    assert data["priorities"][1] == {"name": "low", "value": 5, "level": "low"}
    assert any(entry.object == "PriorityClass same" for entry in result.leftovers)


def test_the_second_class_of_a_priority_is_no_priority() -> None:
    api = "scheduling.k8s.io/v1"
    queued = thing("PriorityClass", "top-queued", api, value=50, labels=OURS)
    data, result = imported(
        node("a", "NVIDIA-L4"),
        thing("PriorityClass", "top", api, value=50),
        queued,
        thing("PriorityClass", "night-queued", api, value=5),
    )
    assert [row["name"] for row in data["priorities"]] == ["top", "night-queued"]
    assert not any(entry.object == "PriorityClass top-queued" for entry in result.leftovers)


def test_the_operator_says_which_config_map_is_meant() -> None:
    def shared(name: str, replicas: int) -> dict[str, Any]:
        resources = [{"name": "nvidia.com/gpu", "replicas": replicas}]
        text = yaml.safe_dump({"version": "v1", "sharing": {"timeSlicing": {"resources": resources}}})
        return thing("ConfigMap", name, namespace="gpu-operator", data={"any": text})

    pointed = policy(devicePlugin={"config": {"name": "first", "default": "any"}})
    data, _ = imported(shared("first", 2), shared("second", 3), pointed, node("a", "NVIDIA-L4"))
    assert data["pools"][0]["sharing"] == {"mode": "time-slicing", "replicas": 2}
