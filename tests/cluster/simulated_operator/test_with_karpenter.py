"""Karpenter's count of slices and the operator's delivery agree, with objects written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MakePods = Callable[..., list[str]]
Object = dict[str, Any]
TYPE = "node.kubernetes.io/instance-type"
A100 = "p4de.24xlarge"
A10G = "g5.2xlarge"
PLUGIN = "nvidia.com/device-plugin.config"
MIG = "nvidia.com/mig.config"


def pool(name: str, machine: str, node_labels: dict[str, str], limits: dict[str, str], empty: str) -> Object:
    """A NodePool of one instance type; its nodes go when they were empty for `empty`, a duration or Never."""
    template = {
        "metadata": {"labels": {"pool": name} | node_labels},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "taints": [{"key": "gpu", "value": name, "effect": "NoSchedule"}],
            "expireAfter": "Never",
            "requirements": [
                {"key": TYPE, "operator": "In", "values": [machine]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            ],
        },
    }
    spec = {
        "limits": limits,
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": empty},
        "template": template,
    }
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def overlay(name: str, machine: str, capacity: dict[str, str]) -> Object:
    requirements = [
        {"key": "karpenter.sh/nodepool", "operator": "In", "values": [name]},
        {"key": TYPE, "operator": "In", "values": [machine]},
    ]
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"weight": 10, "requirements": requirements, "capacity": capacity},
    }


NODE_CLASS = {
    "apiVersion": "karpenter.kwok.sh/v1alpha1",
    "kind": "KWOKNodeClass",
    "metadata": {"name": "default"},
    "spec": {},
}


def prepare(operator: Any, name: str, machine: str, config: dict[str, str], **more: Any) -> None:
    """Make a pool of at most `nodes` nodes with an overlay of `capacity`, and wait until Karpenter knows."""
    operator.kube.apply(
        NODE_CLASS, pool(name, machine, config, {"nodes": str(more["nodes"])}, more.get("empty", "Never"))
    )
    if "capacity" in more:
        operator.kube.apply(overlay(name, machine, more["capacity"]))

        def in_force() -> bool:
            found = operator.kube.get("karpenter.sh/v1alpha1", "NodeOverlay", name)
            conditions = found.get("status", {}).get("conditions", [])
            return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)

        operator.wait(f"overlay {name} is in force", in_force)


def test_karpenter_counts_slices_and_the_operator_delivers_them(operator: Any, make_pods: MakePods) -> None:
    """Four one-slice pods need one node, because one GPU takes four."""
    ts4 = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
    operator.plugin_configs("plugin-4", ts4=ts4)
    operator.policy(plugin_map="plugin-4")
    prepare(operator, "slices", A10G, {PLUGIN: "ts4"}, nodes=3, capacity={"nvidia.com/gpu": "4"}, empty="5s")
    with operator.kube.at_once():
        make_pods("job", 4, {"nvidia.com/gpu": 1}, selector={"pool": "slices"}, tolerate=["gpu"])
    operator.wait("all four run", lambda: len(operator.kube.running()) == 4)
    operator.wait("one node is enough", lambda: len(operator.kube.nodes("pool=slices")) == 1)


def test_karpenter_fills_mig_nodes_and_stops_at_the_limit(operator: Any, make_pods: MakePods) -> None:
    """8 slices a node: 8 pods on one node, 9 on two, and the 17th waits because the pool ends at two."""
    kube = operator.kube
    capacity = {"nvidia.com/gpu": "0", "nvidia.com/mig-3g.40gb": "8", "nvidia.com/mig-2g.20gb": "16"}
    config = {PLUGIN: "mixed", MIG: "split"}
    prepare(operator, "mig", A100, config, nodes=2, capacity=capacity, empty="10s")
    asked = {"nvidia.com/mig-3g.40gb": 1}
    for prefix, more, pods, nodes in (("a", 8, 8, 1), ("b", 1, 9, 2), ("c", 7, 16, 2)):
        with kube.at_once():
            make_pods(prefix, more, asked, selector={"pool": "mig"}, tolerate=["gpu"])
        operator.wait(f"{pods} pods run", lambda pods=pods: len(kube.running()) == pods)
        # A busy Karpenter may start a node too many (docs/known-limits.md); it goes as it is empty.
        operator.wait(f"{nodes} nodes", lambda nodes=nodes: len(kube.nodes("pool=mig")) == nodes)
    make_pods("late", 1, asked, selector={"pool": "mig"}, tolerate=["gpu"])
    operator.wait(
        "the 17th has the reason why it waits",
        lambda: any("node limits have been exhausted" in event for event in kube.events("late-0")),
    )
    assert len(kube.nodes("pool=mig")) == 2
    operator.wait("both claims are initialised", lambda: initialised(kube) == [True, True])


def initialised(kube: Any) -> list[bool]:
    """Of every node claim, whether Karpenter counts its node as complete."""
    claims = kube.api.list("karpenter.sh/v1", "NodeClaim")
    return [
        any(
            row["type"] == "Initialized" and row["status"] == "True"
            for row in claim.get("status", {}).get("conditions", [])
        )
        for claim in claims
    ]


def test_a_node_without_operands_is_never_initialised(operator: Any, make_pods: MakePods) -> None:
    """A pool whose taint the operator does not tolerate: the node comes, its GPU never does."""
    operator.policy(daemonsets={"tolerations": [{"key": "other", "operator": "Exists"}]})
    prepare(operator, "lost", A10G, {PLUGIN: "exclusive"}, nodes=1)
    make_pods("job", 1, {"nvidia.com/gpu": 1}, selector={"pool": "lost"}, tolerate=["gpu"])
    operator.wait("the node is registered", lambda: initialised(operator.kube) == [False])
    node = operator.wait("a node comes", lambda: operator.kube.nodes("pool=lost"))[0]["metadata"]["name"]

    def offers_nothing() -> bool:
        status = operator.kube.node(node)["status"]
        ready = any(row["type"] == "Ready" for row in status.get("conditions", []))
        return not ready or status.get("allocatable", {}).get("nvidia.com/gpu", "0") == "0"

    operator.stays("no GPU is offered", offers_nothing)
    assert operator.kube.running() == []
    assert initialised(operator.kube) == [False]
