"""The MIG manager of the simulated operator: layouts, failures, and nodes that are in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeNode = Callable[..., str]
MakePods = Callable[..., list[str]]
TYPE = "node.kubernetes.io/instance-type"
T4 = "g4dn.12xlarge"
A100 = "p4de.24xlarge"
PLUGIN = "nvidia.com/device-plugin.config"
MIG = "nvidia.com/mig.config"
STATE = "nvidia.com/mig.config.state"


@pytest.mark.parametrize(
    ("plugin", "mig", "expected"),
    [
        ("mixed", "split", {"mig-3g.40gb": 8, "mig-2g.20gb": 16}),
        ("mixed", "sevenths", {"mig-1g.10gb": 56}),
        ("mixed", "half", {"gpu": 4, "mig-7g.80gb": 4}),
        ("mixed", "all-disabled", {"gpu": 8}),
        ("mixed-ts2", "split", {"mig-3g.40gb": 16, "mig-2g.20gb": 16}),
        ("single", "thirds", {"gpu": 24}),
    ],
)
def test_mig_layouts(
    operator: Any, make_node: MakeNode, plugin: str, mig: str, expected: dict[str, int]
) -> None:
    node = make_node("one", {TYPE: A100, PLUGIN: plugin, MIG: mig})
    operator.offers(node, **expected)
    operator.wait("the MIG manager is done", lambda: operator.labels(node).get(STATE) == "success")
    operator.wait(
        "the labels are there", lambda: operator.labels(node).get("nvidia.com/mig.capable") == "true"
    )
    if plugin == "mixed" and mig == "split":
        assert operator.resources(node)["nvidia.com/gpu"] == 0
        assert operator.labels(node)["nvidia.com/mig-3g.40gb.count"] == "8"
        assert operator.labels(node)["nvidia.com/mig.strategy"] == "mixed"
    if plugin == "single":
        assert operator.labels(node)["nvidia.com/gpu.product"].endswith("-MIG-2g.20gb")


def test_strategy_of_the_operator_beats_the_plugin_configuration(operator: Any, make_node: MakeNode) -> None:
    """The trap of gpu-operator issue 704: a strategy in the policy overrides every node's own."""
    node = make_node("one", {TYPE: A100, PLUGIN: "mixed", MIG: "thirds"})
    operator.offers(node, **{"mig-2g.20gb": 24})
    operator.policy(mig={"strategy": "single"})
    operator.offers(node, gpu=24)
    assert operator.resources(node)["nvidia.com/mig-2g.20gb"] == 0, "the kubelet keeps what is gone at zero"


@pytest.mark.parametrize(
    ("layout", "said"),
    [("impossible", "places"), ("typo", "3g.80gb"), ("nowhere", "no 'nowhere'")],
)
def test_a_layout_that_can_not_be_applied_fails(
    operator: Any, make_node: MakeNode, layout: str, said: str
) -> None:
    node = make_node("one", {TYPE: A100, PLUGIN: "mixed", MIG: layout})
    operator.wait("the state is failed", lambda: operator.labels(node).get(STATE) == "failed")
    operator.wait("the reason is shown", lambda: said in operator.error(node))
    if layout == "impossible":
        operator.offers(node)
    operator.set_label(node, MIG, "split")
    operator.offers(node, **{"mig-3g.40gb": 8, "mig-2g.20gb": 16})
    operator.wait("the state is success", lambda: operator.labels(node).get(STATE) == "success")
    operator.wait("the error is gone", lambda: operator.error(node) == "")


def test_a_layout_is_not_changed_under_running_pods(
    operator: Any, make_node: MakeNode, make_pods: MakePods
) -> None:
    node = make_node("one", {TYPE: A100, PLUGIN: "mixed", MIG: "split"})
    operator.offers(node, **{"mig-3g.40gb": 8, "mig-2g.20gb": 16})
    make_pods("job", 1, {"nvidia.com/mig-3g.40gb": 1})
    operator.wait("the pod runs", lambda: len(operator.kube.running()) == 1)
    operator.set_label(node, MIG, "thirds")
    operator.wait("the change fails", lambda: operator.labels(node).get(STATE) == "failed")
    said = "in use by another client (default/job-0)"
    operator.wait("the reason is shown", lambda: said in operator.error(node))
    operator.offers(node, **{"mig-3g.40gb": 8, "mig-2g.20gb": 16})
    operator.kube.api.delete("v1", "Pod", "job-0", "default", grace=0)
    operator.stays("there is no retry", lambda: operator.labels(node).get(STATE) == "failed", 1.0)
    operator.set_label(node, MIG, "sevenths")
    operator.offers(node, **{"mig-1g.10gb": 56})
    assert operator.resources(node)["nvidia.com/mig-3g.40gb"] == 0, "the kubelet keeps what is gone at zero"


def test_a_gpu_without_mig_ignores_the_label(operator: Any, make_node: MakeNode) -> None:
    node = make_node("one", {TYPE: T4, PLUGIN: "mixed", MIG: "split"})
    operator.offers(node, gpu=4)
    assert STATE not in operator.labels(node)


def test_the_default_layout_is_written_where_the_policy_has_one(operator: Any, make_node: MakeNode) -> None:
    operator.policy(migManager={"config": {"name": "mig", "default": "all-disabled"}})
    node = make_node("one", {TYPE: A100, PLUGIN: "mixed"})
    operator.wait("it is done", lambda: operator.labels(node).get(STATE) == "success")
    assert operator.labels(node)[MIG] == "all-disabled"
    operator.offers(node, gpu=8)
