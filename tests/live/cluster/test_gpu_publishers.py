"""GPUs that something beside the operator's device plugin hands out."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.live.cluster.gpu_publishers import UnmodelledWay, unmodelled_ways


def node(name: str, labels: dict[str, str] | None = None, **allocatable: str) -> dict[str, Any]:
    named = {key.replace("__", "/").replace("_", "."): count for key, count in allocatable.items()}
    return {"metadata": {"name": name, "labels": labels or {}}, "status": {"allocatable": named}}


NODES = {
    "a": node("a", {"rack": "1"}, cpu="8", nvidia_com__gpu="4"),
    "b": node("b", {"rack": "2"}, vpc_amazonaws_com__efa="1"),
}


def devices(count: int, kind: str = "gpu") -> list[dict[str, Any]]:
    return [{"name": f"d{n}", "attributes": {"type": {"string": kind}}} for n in range(count)]


def published(driver: str = "gpu.nvidia.com", name: str = "s", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"driver": driver, "devices": devices(2), **spec}}


@pytest.mark.parametrize(
    ("spec", "nodes"),
    [
        ({"nodeName": "a"}, {"a": 2}),
        ({"nodeName": "elsewhere"}, {}),
        ({"allNodes": True}, {"a": 2, "b": 2}),
        ({"nodeName": "a", "devices": devices(2, "channel")}, {}),
        ({"nodeName": "a", "devices": [{"name": "d", "basic": {"attributes": {}}}]}, {"a": 1}),
        ({"nodeName": "a", "devices": devices(3, "mig")}, {"a": 3}),
        (
            {"perDeviceNodeSelection": True, "devices": [{"name": "d", "nodeName": "b"}, {"name": "e"}]},
            {"b": 1},
        ),
        (
            {
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["2", "3"]}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["c"]}]},
                    ]
                }
            },
            {"b": 2},
        ),
        ({"nodeSelector": {"nodeSelectorTerms": [{}]}}, {}),
    ],
)
def test_devices_are_counted_where_they_can_be_used(spec: dict[str, Any], nodes: dict[str, int]) -> None:
    ways = unmodelled_ways(NODES, [published(**spec)])
    assert {way.node: way.devices for way in ways} == nodes
    assert all((way.publisher, way.by_claim) == ("gpu.nvidia.com", True) for way in ways)


@pytest.mark.parametrize(
    ("driver", "found"),
    [
        ("gpu.nvidia.com", True),
        ("vfio.gpu.nvidia.com", True),
        ("gpu.example.com", True),
        ("hami-core-gpu.project-hami.io", True),
        ("nic.example.com", False),
        ("notnvidia.com", False),
    ],
)
def test_drivers_of_gpus_and_others(driver: str, found: bool) -> None:
    assert bool(unmodelled_ways(NODES, [published(driver, nodeName="a")])) == found


def test_a_slice_in_two_versions_counts_once() -> None:
    (way,) = unmodelled_ways(NODES, [published(nodeName="a"), published(nodeName="a")])
    assert way.devices == 2


@pytest.mark.parametrize(
    ("resource", "count", "found"),
    [
        ("nvidia.com/gpu.shared", "4", False),
        ("nvidia.com/mig-1g.10gb", "4", False),
        ("nvidia.com/gpumem", "40000", True),
        ("nvidia.com/GA102GL_A10", "1", True),
        ("volcano.sh/vgpu-number", "8", True),
        ("aliyun.com/gpu-mem", "24", True),
        ("tencent.com/vcuda-core", "100", True),
        ("volcano.sh/vgpu-number", "0", False),
        ("vpc.amazonaws.com/efa", "4", False),
        ("hugepages-2Mi", "0", False),
        ("example.com/fpga", "2", False),
    ],
)
def test_resources_that_other_plugins_make_of_gpus(resource: str, count: str, found: bool) -> None:
    one = {"metadata": {"name": "n", "labels": {}}, "status": {"allocatable": {"cpu": "8", resource: count}}}
    ways = unmodelled_ways({"n": one}, [])
    assert ways == ((UnmodelledWay("n", resource, int(count), False),) if found else ())
