"""What nodes say of how their GPUs are shared, and what is made of nodes whose words do not fit together."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpupool.adopt.convert import node_state
from gpupool.adopt.convert.convert import Conversion, convert
from gpupool.adopt.convert.documents import of_cluster
from gpupool.adopt.convert.draft import Choices
from gpupool.environment.catalog.project import catalog_here
from gpupool.environment.sharing.placement import feasible

WHOLE = {"mode": "exclusive"}
A100 = "NVIDIA-A100-SXM4-80GB"


def labels(product: str = "Tesla-T4", **given: object) -> dict[str, str]:
    """`gpu_replicas` is nvidia.com/gpu.replicas."""
    named = {f"nvidia.com/{name.replace('_', '.', 1).replace('_', '-')}": str(v) for name, v in given.items()}
    return {"nvidia.com/gpu.product": product, **named}


def sliced(mode: str, replicas: int) -> dict[str, Any]:
    return {"mode": mode, "replicas": replicas}


def instances(**counts: int) -> dict[str, int]:
    return {f"nvidia.com/mig-{name}": count for name, count in counts.items()}


def state(said: dict[str, str], capacity: dict[str, object], gpu: str) -> node_state.ReportedNode:
    return node_state.of(said, capacity, catalog_here()[gpu])


@pytest.mark.parametrize(
    ("said", "capacity", "gpu", "sharing", "gpus"),
    [
        (labels(), {}, "t4", None, 1),
        (labels(gpu_count=4, gpu_replicas=1), {"nvidia.com/gpu": "4"}, "t4", WHOLE, 4),
        (labels(gpu_count=4), {"nvidia.com/gpu": "4"}, "t4", WHOLE, 4),
        (
            labels("Tesla-T4-SHARED", gpu_count=2, gpu_replicas=8, gpu_sharing_strategy="time-slicing"),
            {"nvidia.com/gpu": "16"}, "t4", sliced("time-slicing", 8), 2,
        ),
        (
            labels("Tesla-T4-SHARED", gpu_count=1, gpu_replicas=3, gpu_sharing_strategy="mps"),
            {}, "t4", sliced("mps", 3), 1,
        ),
        # Before v0.15.0 there was no label of the strategy, and one strategy.
        (labels("Tesla-T4-SHARED", gpu_count=1, gpu_replicas=3), {}, "t4", sliced("time-slicing", 3), 1),
        (
            labels(gpu_count=1, gpu_replicas=4, gpu_sharing_strategy="time-slicing"),
            {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "4"}, "t4",
            {**sliced("time-slicing", 4), "renameByDefault": True}, 1,
        ),
        (
            labels(f"{A100}-MIG-3g.40gb", gpu_count=4, gpu_replicas=1, mig_strategy="single"),
            {}, "a100-80gb", {"mode": "mig", "layout": {"3g.40gb": 2}}, 2,
        ),
        (
            {**labels(A100, gpu_count=2, gpu_replicas=0), "nvidia.com/mig-1g.10gb.count": "4",
             "nvidia.com/mig-2g.20gb.count": "2"},
            instances(**{"1g.10gb": 4, "2g.20gb": 2}),
            "a100-80gb", {"mode": "mig", "layout": {"1g.10gb": 2, "2g.20gb": 1}}, 2,
        ),
        (
            labels(A100, gpu_count=1), instances(**{"1g.10gb.me": 1, "1g.10gb": 6, "4g.40gb": 0}),
            "a100-80gb", {"mode": "mig", "layout": {"1g.10gb+me": 1, "1g.10gb": 6}}, 1,
        ),
    ],
)  # fmt: skip
def test_what_a_node_says(
    said: dict[str, str], capacity: dict[str, object], gpu: str, sharing: object, gpus: int
) -> None:
    read = state(said, capacity, gpu)
    assert (read.sharing, read.gpus, read.problem) == (sharing, gpus, "")


@pytest.mark.parametrize(
    ("said", "capacity", "gpu", "words"),
    [
        (labels(gpu_count=1), {"nvidia.com/gpu": "4"}, "t4", "no label says how they are shared"),
        (labels("Tesla-T4-SHARED", gpu_count=1), {}, "t4", "no label says how they are shared"),
        (labels(gpu_count=1, gpu_sharing_strategy="mps"), {}, "t4", "no label has the number of"),
        (labels("Tesla-T4-SHARED", gpu_count=1, gpu_replicas=1), {}, "t4", "others say that its GPUs"),
        (labels(gpu_count=1, gpu_replicas=4, gpu_sharing_strategy="none"), {}, "t4", "shared by none"),
        (
            labels("Tesla-T4-SHARED", gpu_count=2, gpu_replicas=4, gpu_sharing_strategy="mps"),
            {"nvidia.com/gpu": "20"}, "t4", "4 slices of 2 GPUs, but its capacity is 20",
        ),
        (labels(A100, gpu_count=8, gpu_replicas=0), {"nvidia.com/gpu": "0"}, "a100-80gb", "MIG mode"),
        (labels(f"{A100}-MIG-INVALID", gpu_count=0), {}, "a100-80gb", "have different layouts"),
        (labels(f"{A100}-MIG-1g.10gb", gpu_count=10), {}, "a100-80gb", "do not fill GPUs"),
        (labels(f"{A100}-MIG-9g.9gb", gpu_count=7), {}, "a100-80gb", "no MIG profile 9g.9gb"),
        (labels(f"{A100}-MIG-1g.10gb-SHARED", gpu_count=7), {}, "a100-80gb", "instances are shared"),
        (labels(A100), instances(**{"1g.10gb": 7}), "a100-80gb", "with the number of GPUs"),
        (labels(A100, gpu_count=2), instances(**{"1g.10gb": 7}), "a100-80gb", "have different layouts"),
        (
            {**labels(A100, gpu_count=1), "nvidia.com/mig-1g.10gb.count": "7"},
            instances(**{"1g.10gb": 6}), "a100-80gb", "its label says 7",
        ),
        (
            {**labels(A100, gpu_count=1), "nvidia.com/mig-1g.10gb.count": "7",
             "nvidia.com/mig-1g.10gb.replicas": "2"},
            {}, "a100-80gb", "instances are shared",
        ),
        (
            {**labels(A100, gpu_count=1), "nvidia.com/mig-1g.10gb.count": "7"},
            {"nvidia.com/mig-1g.10gb.shared": "14"}, "a100-80gb", "instances are shared",
        ),
        (labels(A100, gpu_count=8, gpu_replicas=1), {"nvidia.com/gpu": "0"}, "a100-80gb", "has 0 nvidia"),
        (labels(A100, gpu_count=8), {"nvidia.com/gpu": "0"}, "a100-80gb", "has 0 nvidia"),
        (
            {**labels(A100, gpu_count=8), "nvidia.com/gpu.workload.config": "vm-passthrough"},
            {}, "a100-80gb", "not for containers",
        ),
        (
            {**labels(A100, gpu_count=8), "nvidia.com/gpu.deploy.device-plugin": "false"},
            {"nvidia.com/gpu": "8"}, "a100-80gb", "no device plugin runs there",
        ),
    ],
)  # fmt: skip
def test_what_cant_be(said: dict[str, str], capacity: dict[str, object], gpu: str, words: str) -> None:
    read = state(said, capacity, gpu)
    assert read.sharing is None
    assert words in read.problem


@given(st.data(), st.integers(1, 8))
def test_every_layout_is_read_from_its_resources(data: st.DataObject, gpus: int) -> None:
    gpu = catalog_here()["h100-80gb"]
    assert gpu.mig is not None
    counts = data.draw(st.sampled_from([c for c in sorted(feasible(gpu.mig)) if any(c)]))
    layout = {p.name: n for p, n in zip(gpu.mig.profiles, counts, strict=True) if n}
    offered = {f"nvidia.com/mig-{name.replace('+', '.')}": n * gpus for name, n in layout.items()}
    read = node_state.of(labels("NVIDIA-H100-80GB-HBM3", gpu_count=gpus), offered, gpu)
    assert (read.sharing, read.gpus) == ({"mode": "mig", "layout": layout}, gpus)


def node(name: str, said: dict[str, str], capacity: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": name, "labels": said}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": capacity or {}}}


def config(replicas: int, name: str = "any") -> dict[str, Any]:
    resources = [{"name": "nvidia.com/gpu", "replicas": replicas}]
    text = yaml.safe_dump({"version": "v1", "sharing": {"timeSlicing": {"resources": resources}}})
    metadata = {"name": "sharing", "namespace": "gpu-operator"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {name: text}}


def converted(*objects: dict[str, Any]) -> Conversion:
    return convert(of_cluster(list(objects), "context test"), Choices())


SLICED = labels("Tesla-T4-SHARED", gpu_count=1, gpu_replicas=4, gpu_sharing_strategy="time-slicing")
CHOSEN = "nvidia.com/device-plugin.config"


def test_a_configuration_that_says_the_same_is_one_with_the_node() -> None:
    result = converted(config(4), node("a", {**SLICED, CHOSEN: "any"}), node("b", SLICED))
    pools = yaml.safe_load(result.text)["pools"]
    assert [pool["sharing"] for pool in pools] == [{"mode": "time-slicing", "replicas": 4}] * 2


def test_a_configuration_that_has_not_reached_the_node_leaves_it_out() -> None:
    result = converted(config(8), node("a", {**SLICED, CHOSEN: "any"}))
    assert not result.pools
    (why,) = result.left_out
    assert "time-slicing with 4 replicas, but device-plugin configuration any" in why
    assert "8 replicas; correct one of them" in why


def test_slices_that_no_label_tells_are_told_by_the_configuration() -> None:
    sliced = labels("Tesla-T4-SHARED", gpu_count=1)
    result = converted(config(4), node("a", {**sliced, CHOSEN: "any"}))
    assert yaml.safe_load(result.text)["pools"][0]["sharing"] == {"mode": "time-slicing", "replicas": 4}


def test_a_configuration_that_is_not_there_is_said_and_the_node_believed() -> None:
    result = converted(node("a", {**SLICED, CHOSEN: "gone"}))
    assert yaml.safe_load(result.text)["pools"][0]["sharing"]["replicas"] == 4
    listed = [str(entry) for entry in result.leftovers]
    assert any("the input has no device-plugin configuration 'gone'" in line for line in listed)
    result = converted(node("a", {**labels(gpu_count=1), CHOSEN: "gone"}))
    assert not result.pools
    assert "'gone'" in result.left_out[0]


def test_nodes_that_differ_in_what_they_say_are_pools_of_their_own() -> None:
    other = SLICED | {"nvidia.com/gpu.replicas": "2"}
    result = converted(node("a", SLICED), node("b", other), node("c", SLICED))
    pools = yaml.safe_load(result.text)["pools"]
    assert [pool["nodes"]["names"] for pool in pools] == [["a", "c"], ["b"]]
