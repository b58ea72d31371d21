"""The environments of examples/clouds on the local control plane, whose nodes are labelled as those clouds
label them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.environment.plan.pods import pod_fields
from gpupool.environment.plan.priority_classes import own_class
from gpupool.local.control_plane import ControlPlane
from tests.cluster.operator_policy import hand_made_policy
from tests.cluster.pools.command_line import CommandLine

CLOUDS = Path(__file__).parents[3] / "examples" / "clouds"
GKE, GPU = "cloud.google.com/gke-", "nvidia.com/gpu"
PRESENT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
NODES: dict[str, list[dict[str, Any]]] = {
    "gke": [
        {
            f"{GKE}nodepool": "l4-shared",
            f"{GKE}accelerator": "nvidia-l4",
            f"{GKE}gpu-sharing-strategy": "time-sharing",
            f"{GKE}max-shared-clients-per-gpu": "4",
        },
        {
            f"{GKE}nodepool": "a100-1g",
            f"{GKE}accelerator": "nvidia-tesla-a100",
            f"{GKE}gpu-partition-size": "1g.5gb",
        },
        {f"{GKE}nodepool": "h100", f"{GKE}accelerator": "nvidia-h100-80gb"},
    ],
    "aks": [
        {"kubernetes.azure.com/agentpool": "t4", "kubernetes.azure.com/accelerator": "nvidia"},
        {"kubernetes.azure.com/agentpool": "a100", "kubernetes.azure.com/accelerator": "nvidia"},
    ],
    "eks-node-groups": [
        {"eks.amazonaws.com/nodegroup": "h100-block", "eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}
    ],
}
"""Labels of one node of each of the pools, in their order."""
SIMULATED = {"aks": [("t4", 1), ("a100-80gb", 1)], "eks-node-groups": [("h100-80gb", 8)]}
OFFERED = {
    "gke": [{GPU: "4"}, {GPU: "7"}, {GPU: "8"}],
    "aks": [{GPU: "4"}, {"nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-2g.20gb": "2"}],
    "eks-node-groups": [{GPU: "8"}],
}


@pytest.fixture(params=list(NODES))
def cloud(
    request: pytest.FixtureRequest,
    cluster: Any,
    control_plane: ControlPlane,
    make_node: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> CommandLine:
    """The example, with charts of somebody else's: there is no network here."""
    name = request.param
    data = yaml.safe_load((CLOUDS / f"{name}.yaml").read_text(encoding="utf-8"))
    if name != "gke":
        data["gpuOperator"]["install"] = False
        cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
        cluster.apply(hand_made_policy())
    if "karpenter" in data:
        data["karpenter"]["install"] = False
    for number, labels in enumerate(NODES[name]):
        notes = {}
        for gpu, count in SIMULATED.get(name, [])[number : number + 1]:
            notes = {"simulated.gpupool.dev/gpu": gpu, "simulated.gpupool.dev/gpus": str(count)}
        taints = [PRESENT] if name == "gke" else []
        make_node(f"node-{number}", labels=labels, annotations=notes, taints=taints)
        if name == "gke":
            status = {"status": dict.fromkeys(("capacity", "allocatable"), OFFERED[name][number])}
            cluster.api.patch("v1", "Node", f"node-{number}", status, subresource="status")
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    monkeypatch.setenv("PULUMI_BACKEND_URL", tmp_path.as_uri())
    commands = CommandLine(tmp_path / f"{name}.yaml", control_plane)
    commands.write(data)
    return commands


def offers(cluster: Any, number: int) -> dict[str, str]:
    there = cluster.node(f"node-{number}")["status"]["allocatable"]
    return {name: count for name, count in there.items() if name.startswith("nvidia.com/") and count != "0"}


def test_nodes_of_clouds_become_pools_and_are_given_back(cloud: CommandLine, cluster: Any) -> None:
    name = cloud.file.stem
    before = [cluster.node(f"node-{number}")["metadata"]["labels"] for number in range(len(NODES[name]))]
    cloud.up()
    pools = [pool for pool in cloud.plan.pools if not pool.capacities]
    for number, pool in enumerate(pools):
        node = cluster.node(f"node-{number}")
        assert node["metadata"]["labels"].items() >= dict(pool.labels).items()
        cluster.wait(
            f"slices of {pool.name}", lambda number=number: offers(cluster, number) == OFFERED[name][number]
        )
        _runs(cluster, cloud, number)
    cloud.run("assert")
    assert cloud.touched(cloud.up()) == set()
    cloud.run("destroy", "--yes")
    for number, labels in enumerate(before):
        left = cluster.node(f"node-{number}")["metadata"]["labels"]
        assert {key: value for key, value in left.items() if "nvidia.com" not in key} == {
            key: value for key, value in labels.items() if "nvidia.com" not in key
        }


def _runs(cluster: Any, cloud: CommandLine, number: int) -> None:
    """The scheduler puts a pod of the pool there, whatever taints the cloud has set."""
    plan = cloud.plan
    pool = [pool for pool in plan.pools if not pool.capacities][number]
    resource = next(iter(pool.slices_per_node))
    fields = pod_fields(pool, resource, priority_class=own_class(plan, plan.tenants[0], pool.name))
    container = {
        "name": "own",
        "image": "registry.example/work:1",
        "resources": {"limits": fields.limits, "requests": {"cpu": "10m", "memory": "16Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    user = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    about = {"name": f"of-{pool.name}", "namespace": plan.tenants[0].namespace}
    spec = {
        **fields.spec,
        "containers": [container],
        "securityContext": user,
        "terminationGracePeriodSeconds": 0,
    }
    metadata = {**about, "labels": dict(fields.labels), "annotations": dict(fields.annotations)}
    cluster.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def placed() -> bool:
        pod = cluster.get("v1", "Pod", about["name"], about["namespace"])
        return pod["spec"].get("nodeName") == f"node-{number}"

    cluster.wait(f"a pod of {pool.name} is on its node", placed)
    cluster.api.delete("v1", "Pod", about["name"], about["namespace"])


@pytest.mark.parametrize("cloud", ["gke"], indirect=True)
def test_a_node_pool_that_shares_in_another_way_is_named(cloud: CommandLine, cluster: Any) -> None:
    cloud.up()
    for node, label, value in (
        ("node-0", "max-shared-clients-per-gpu", "8"),
        ("node-2", "gpu-partition-size", "1g.10gb"),
    ):
        cluster.patch_node(node, {"metadata": {"labels": {f"{GKE}{label}": value}}})
    printed = cloud.run("assert", code=1)
    assert "gpu-max-shared" not in printed
    assert "its node pool has max-shared-clients-per-gpu 8, planned is 4" in printed
    assert "gpu-sharing-strategy=time-sharing,max-shared-clients-per-gpu=4" in printed
    assert "its node pool has gpu-partition-size 1g.10gb, planned is none" in printed
    cloud.run("destroy", "--yes")
