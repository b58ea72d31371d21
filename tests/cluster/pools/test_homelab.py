"""The home lab: one node that exists already, with labels and taints of its own, and an own operator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.live.objects import repartition_mark
from gpupool.local.control_plane import ControlPlane
from tests.cluster.operator_policy import hand_made_policy
from tests.cluster.pools.command_line import SHIPPED, CommandLine

OWN_TAINT = {"key": "dedicated", "value": "lab", "effect": "PreferNoSchedule"}


@pytest.fixture
def homelab(
    cluster: Any, control_plane: ControlPlane, make_node: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """The shipped file, on a cluster where somebody has installed the operator by hand."""
    data = yaml.safe_load((SHIPPED.parent / "homelab.yaml").read_text(encoding="utf-8"))
    data["gpuOperator"]["install"] = False
    data["pools"][0]["taints"] = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
    make_node(
        "k3s-gpu-0",
        labels={"rack": "desk"},
        annotations={"simulated.gpupool.dev/gpu": "rtx-4070-ti-super", "simulated.gpupool.dev/gpus": "1"},
        taints=[OWN_TAINT],
    )
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
    cluster.apply(hand_made_policy())
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    monkeypatch.setenv("PULUMI_BACKEND_URL", tmp_path.as_uri())
    commands = CommandLine(tmp_path / "homelab.yaml", control_plane)
    commands.write(data)
    return commands


def state(kube: Any) -> Any:
    """What of the node and the policy is not the operator's or the kubelet's to change."""
    node, policy = kube.node("k3s-gpu-0"), kube.get("nvidia.com/v1", "ClusterPolicy", "cluster-policy")
    labels = {key: value for key, value in node["metadata"]["labels"].items() if "nvidia.com" not in key}
    taints = [t for t in node["spec"].get("taints", []) if not t["key"].startswith("node.kubernetes.io/")]
    return labels, taints, policy["spec"], _annotations(node)


def _annotations(node: Any) -> Any:
    return {key for key in node["metadata"]["annotations"] if key.startswith("gpupool.dev")}


def test_a_node_made_by_hand_is_shared_and_given_back(homelab: CommandLine, cluster: Any) -> None:
    before = state(cluster)
    homelab.up()
    node = cluster.node("k3s-gpu-0")
    assert node["metadata"]["labels"]["gpupool.dev/pool"] == "desk"
    assert node["metadata"]["labels"]["rack"] == "desk"
    keys = [taint["key"] for taint in node["spec"]["taints"]]
    assert sorted(keys) == ["dedicated", "gpu"]
    cluster.wait(
        "four slices",
        lambda: cluster.node("k3s-gpu-0")["status"]["allocatable"].get("nvidia.com/gpu") == "4",
    )
    assert homelab.touched(homelab.up()) == set()
    homelab.change(lambda data: data["pools"][0]["sharing"].update(replicas=2))
    homelab.change(lambda data: data["tenants"][0]["pools"].update(desk={"slices": 2}))
    homelab.up()
    cluster.wait(
        "two slices",
        lambda: cluster.node("k3s-gpu-0")["status"]["allocatable"].get("nvidia.com/gpu") == "2",
    )
    homelab.run("destroy", "--yes")
    assert state(cluster) == before


def test_what_repartition_has_changed_is_given_back_all_the_same(homelab: CommandLine, cluster: Any) -> None:
    before = state(cluster)
    homelab.up()

    def offers(count: str) -> bool:
        return bool(cluster.node("k3s-gpu-0")["status"]["allocatable"].get("nvidia.com/gpu") == count)

    cluster.wait("four slices", lambda: offers("4"))
    homelab.change(lambda data: data["pools"][0]["sharing"].update(replicas=2))
    homelab.change(lambda data: data["tenants"][0]["pools"].update(desk={"slices": 2}))
    underway = {"environment": "homelab", "pool": "desk"}
    meta = {"name": repartition_mark.JOURNAL, "namespace": "gpupool-system"}
    data = {repartition_mark.JOURNAL_KEY: json.dumps(underway)}
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    homelab.run("up", "--yes", code=1)
    assert offers("4"), "`up` does not cut across a repartition"
    cluster.api.delete("v1", "ConfigMap", meta["name"], meta["namespace"])
    assert homelab.json("repartition", "desk")["status"] == "done"
    assert offers("2")
    changed = state(cluster)
    homelab.up()
    assert state(cluster) == changed, "`up` finds everything as it wants it"
    homelab.run("destroy", "--yes")
    assert state(cluster) == before
