"""Taints and labels that keep jobs or the operator off a node, and those that are as they should be."""

from __future__ import annotations

import pytest

from tests.live.drift.fake_cluster import Cluster


@pytest.mark.parametrize(
    ("taint", "expected"),
    [
        ({"key": "foo", "value": "bar", "effect": "NoSchedule"}, "kubectl taint node node-0 foo:NoSchedule-"),
        ({"key": "foo", "effect": "NoExecute"}, "kubectl taint node node-0 foo:NoExecute-"),
        ({"key": "foo", "effect": "PreferNoSchedule"}, None),
        ({"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}, None),
        ({"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}, None),
        ({"key": "karpenter.sh/unregistered", "effect": "NoExecute"}, None),
        ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, None),
        ({"key": "example.com/agent", "effect": "NoSchedule"}, None),
    ],
)
def test_a_taint_that_somebody_else_set_is_a_warning(taint: dict[str, str], expected: str | None) -> None:
    """Unless the node's own machinery has put it there: a startup taint, a cloud, a node's lifecycle."""
    cluster = Cluster()
    cluster.node("shared")["spec"]["taints"].append(taint)
    startup = [{"key": "example.com/agent", "effect": "NoSchedule"}]
    cluster.get("NodeClaim", "claim-node-0")["spec"] = {"startupTaints": startup}
    found = [(drift.code, drift.category.value, drift.remediation) for drift in cluster.examine()]
    assert found == ([("foreign-taint", "warning", expected)] if expected else [])


@pytest.mark.parametrize(
    ("operand", "value", "reported"),
    [
        ("device-plugin", "false", True),
        ("mig-manager", "false", True),
        ("device-plugin", "paused-for-mig-change", False),
        ("driver", "false", False),
        ("dcgm-exporter", "false", False),
    ],
)
def test_an_operand_that_a_label_keeps_off(operand: str, value: str, reported: bool) -> None:
    """While the node still offers what it should; a driver of the machine's own is no fault."""
    cluster = Cluster()
    key = f"nvidia.com/gpu.deploy.{operand}"
    cluster.node("parted", **{key: value})
    expected = [("operands-off", f"kubectl label node node-0 {key}-")] if reported else []
    assert [(drift.code, drift.remediation) for drift in cluster.examine()] == expected


def test_a_label_explains_a_node_without_slices() -> None:
    cluster = Cluster()
    cluster.node("shared", **{"nvidia.com/gpu.deploy.driver": "false"})
    cluster.get("Node", "node-0")["status"]["allocatable"] = {}
    (found,) = cluster.examine()
    assert (found.code, found.remediation) == (
        "operands-off",
        "kubectl label node node-0 nvidia.com/gpu.deploy.driver-",
    )
