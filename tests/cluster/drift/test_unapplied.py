"""A file that was edited and not applied yet, and what somebody else put on a node: on a real cluster."""

from __future__ import annotations

from copy import deepcopy

from gpupool.findings import Category
from tests.cluster.drift.world import ENVIRONMENT, World

TAINT = {"key": "example.com/mine", "value": "yes", "effect": "NoSchedule"}


def test_no_repair_takes_a_layout_from_a_node_before_there_is_another(world: World) -> None:
    """A bare label would name a layout that the cluster does not have, and the MIG manager would fail."""
    edited = deepcopy(ENVIRONMENT)
    edited["pools"][1]["sharing"]["layout"] = {"3g.40gb": 2}
    world.commands.write(edited)
    node = world.node("models")
    rows = [drift for drift in world.drifts() if drift.object == f"Node {node}"]
    assert [drift.code for drift in rows] == ["wrong-config-key"]
    assert rows[0].remediation == f"gpupool repartition {world.commands.file} models"


def test_a_taint_that_somebody_else_set_is_reported_and_its_repair_removes_it(world: World) -> None:
    node = world.node("notebooks")
    taints = world.kube.node(node)["spec"].get("taints", [])
    world.edit("v1", "Node", node, {"spec": {"taints": [*taints, TAINT]}})
    (reported,) = world.examine().of(Category.warning)
    assert (reported.code, reported.object) == ("foreign-taint", f"Node {node}")
    world.run(reported.remediation)
    assert world.examine().of(Category.warning) == ()
