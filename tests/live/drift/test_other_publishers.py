"""`assert` finds what hands out the GPUs of pools' nodes beside the operator's device plugin."""

from __future__ import annotations

from tests.live.drift.fake_cluster import STATIC, Cluster, kinds


def test_a_dra_driver_on_a_pools_node() -> None:
    cluster = Cluster()
    cluster.node("shared")
    spec = {"driver": "gpu.nvidia.com", "nodeName": "node-0", "devices": [{"name": "gpu-0"}]}
    for name, node in (("s0", "node-0"), ("s1", "elsewhere")):
        row = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}}
        cluster.add({**row, "spec": {**spec, "nodeName": node}})
    (drift,) = cluster.examine()
    assert (drift.code, drift.object, drift.found) == ("other-publisher", "Node node-0", 1)
    assert "DRA driver gpu.nvidia.com publishes 1 devices" in drift.what


def test_another_device_plugin_on_a_pools_node() -> None:
    cluster = Cluster(STATIC)
    cluster.node("desk", "lab-0")["status"]["allocatable"]["volcano.sh/vgpu-number"] = "8"
    found = [drift for drift in cluster.examine() if drift.code == "other-publisher"]
    assert [(drift.object, drift.path) for drift in found] == [
        ("Node lab-0", "status.allocatable[volcano.sh/vgpu-number]")
    ]
    assert ("other-publisher", "drift") in kinds(found)
