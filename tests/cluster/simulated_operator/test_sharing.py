"""What the device plugin of the simulated operator makes of a node, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeNode = Callable[..., str]
TYPE = "node.kubernetes.io/instance-type"
T4 = "g4dn.12xlarge"
H100 = "p5.48xlarge"
A10G = "g5.2xlarge"
PLUGIN = "nvidia.com/device-plugin.config"


@pytest.mark.parametrize(
    ("machine", "config", "expected", "product", "strategy", "replicas"),
    [
        (T4, "exclusive", {"gpu": 4}, "Tesla-T4", "none", "1"),
        (T4, None, {"gpu": 4}, "Tesla-T4", "none", "1"),
        (T4, "ts8", {"gpu": 32}, "Tesla-T4-SHARED", "time-slicing", "8"),
        (T4, "ts8-renamed", {"gpu.shared": 32}, "Tesla-T4", "time-slicing", "8"),
        (A10G, "mps4", {"gpu": 4}, "NVIDIA-A10G-SHARED", "mps", "4"),
        (H100, "exclusive", {"gpu": 8}, "NVIDIA-H100-80GB-HBM3", "none", "1"),
    ],
)
def test_sharing_modes(
    operator: Any,
    make_node: MakeNode,
    machine: str,
    config: str | None,
    expected: dict[str, int],
    product: str,
    strategy: str,
    replicas: str,
) -> None:
    node = make_node("one", {TYPE: machine} | ({PLUGIN: config} if config else {}))
    operator.offers(node, **expected)
    operator.wait("the labels are there", lambda: "nvidia.com/gpu.product" in operator.labels(node))
    found = operator.labels(node)
    assert found["nvidia.com/gpu.product"] == product
    assert found["nvidia.com/gpu.sharing-strategy"] == strategy
    assert found["nvidia.com/gpu.replicas"] == replicas
    assert found["nvidia.com/gpu.count"] == str(4 if machine == T4 else 1 if machine == A10G else 8)
    assert operator.error(node) == ""


def test_a_hand_made_node_says_what_it_has(operator: Any, make_node: MakeNode) -> None:
    notes = {"simulated.gpupool.dev/gpu": "rtx-4070-ti-super", "simulated.gpupool.dev/gpus": "2"}
    node = make_node("homelab", {PLUGIN: "ts8"}, notes)
    operator.offers(node, gpu=16)
    wrong = make_node("wrong", {}, {"simulated.gpupool.dev/gpu": "rtx-4070"})
    operator.wait("the annotation is refused", lambda: "rtx-4070" in operator.error(wrong))
    plain = make_node("plain")
    assert operator.resources(plain) == {}


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("unknown", None, "no configuration 'unknown'"),
        ("bad", "sharing: {}\n", "version"),
        ("bad", "version: v1\nsharing: {timeslicing: {}}\n", "unknown timeslicing"),
        (
            "bad",
            "version: v1\nsharing: {timeSlicing: {renamebydefault: true, resources: []}}\n",
            "renamebydefault",
        ),
        (
            "bad",
            "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}\n",
            "of 2 or more",
        ),
        ("bad", "version: v1\nflags: {migStrategy: mixd}\n", "mixd"),
        (
            "bad",
            "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 99}]}}\n",
            "48 clients",
        ),
    ],
)
def test_a_configuration_that_can_not_be_meant_is_an_error(
    operator: Any, make_node: MakeNode, key: str, text: str | None, said: str
) -> None:
    if text is not None:
        operator.plugin_configs(bad=text)
    node = make_node("one", {TYPE: A10G, PLUGIN: "exclusive"})
    operator.offers(node, gpu=1)
    operator.set_label(node, PLUGIN, key)
    operator.wait("the error is shown", lambda: said in operator.error(node))
    operator.offers(node)
    operator.wait("there is an event", lambda: any(said in event for event in operator.kube.events(node)))
    operator.set_label(node, PLUGIN, "exclusive")
    operator.offers(node, gpu=1)
    operator.wait("the error is gone", lambda: operator.error(node) == "")
