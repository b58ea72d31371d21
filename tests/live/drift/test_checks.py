"""Drift that takes a cloud, an hour or a broken machine to happen, found in plain objects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpupool.live.drift import limits
from tests.live.drift.fake_cluster import STATIC, Cluster, kinds, stamp


def test_a_cluster_that_is_as_the_file_says_is_clean() -> None:
    cluster = Cluster()
    cluster.node("shared")
    cluster.node("parted", "node-1")
    assert cluster.examine() == ()


def _condition(cluster: Cluster, kind: str, name: str, condition: str, **values: str) -> None:
    rows = cluster.get(kind, name)["status"]["conditions"]
    next(row for row in rows if row["type"] == condition).update(values)


def _not_ready(seconds: float) -> Callable[[Cluster], None]:
    def change(cluster: Cluster) -> None:
        values = {"status": "False", "message": "kubelet stopped", "lastTransitionTime": stamp(seconds)}
        _condition(cluster, "Node", "node-0", "Ready", **values)

    return change


def _mig_state(state: str, seconds: float) -> Callable[[Cluster], None]:
    def change(cluster: Cluster) -> None:
        node = cluster.get("Node", "node-1")
        node["metadata"]["labels"]["nvidia.com/mig.config.state"] = state
        fields = {"f:metadata": {"f:labels": {"f:nvidia.com/mig.config.state": {}}}}
        row = {"manager": "mig-manager", "operation": "Update", "time": stamp(seconds), "fieldsV1": fields}
        node["metadata"]["managedFields"].append(row)
        node["status"]["allocatable"] = {}

    return change


def _unhealthy(cluster: Cluster) -> None:
    cluster.get("Node", "node-0")["status"]["allocatable"] = {"nvidia.com/gpu": "3"}


def _silent(cluster: Cluster) -> None:
    status = cluster.get("Node", "node-0")["status"]
    status["allocatable"] = status["capacity"] = {"nvidia.com/gpu": "0"}


def _crash_loop(cluster: Cluster) -> None:
    _silent(cluster)
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    ended = {"terminated": {"message": "no such configuration"}}
    row = {"name": "nvidia-device-plugin", "state": waiting, "lastState": ended}
    metadata = {"name": "plugin-x", "namespace": "gpu-operator"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "node-0"}}
    cluster.add({**pod, "status": {"containerStatuses": [row]}})


def _starting_pod(cluster: Cluster) -> None:
    _silent(cluster)
    metadata = {"name": "plugin-x", "namespace": "gpu-operator"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "node-0"}}
    cluster.add({**pod, "status": {}}, age=30)


def _strategy(cluster: Cluster) -> None:
    status = cluster.get("Node", "node-1")["status"]
    status["allocatable"] = status["capacity"] = {"nvidia.com/gpu": "8"}


def _stopped(seconds: float) -> Callable[[Cluster], None]:
    def change(cluster: Cluster) -> None:
        claim = cluster.get("NodeClaim", "claim-node-0")
        claim["metadata"]["creationTimestamp"] = stamp(seconds)
        claim["status"] = {"conditions": [{"type": "Launched", "status": "False", "message": "no capacity"}]}
        del cluster.objects["v1", "Node"][None, "node-0"]

    return change


def _leaving(cluster: Cluster) -> None:
    cluster.get("NodeClaim", "claim-node-0")["metadata"]["deletionTimestamp"] = stamp(2 * limits.DRAIN)


def _outdated(seconds: float) -> Callable[[Cluster], None]:
    def change(cluster: Cluster) -> None:
        pool = cluster.get("NodePool", "shared")
        pool["metadata"].setdefault("annotations", {})["karpenter.sh/nodepool-hash"] = "2"
        claim = cluster.get("NodeClaim", "claim-node-0")
        claim["metadata"]["annotations"] = {"karpenter.sh/nodepool-hash": "1"}
        fields = {"f:spec": {"f:template": {}}}
        pool["metadata"]["managedFields"] = [
            {"manager": "gpupool", "operation": "Apply", "time": stamp(seconds), "fieldsV1": fields}
        ]

    return change


def _waiting(seconds: float) -> Callable[[Cluster], None]:
    def change(cluster: Cluster) -> None:
        cluster.get("NodePool", "shared")["status"]["resources"] = {"nodes": "2", "nvidia.com/gpu": "8"}
        unscheduled = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
        spec = {"nodeSelector": {"gpupool.dev/pool": "shared"}}
        metadata = {"name": "job-0", "namespace": "team-vision"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": unscheduled}
        cluster.add(pod, age=seconds)

    return change


def _chart(name: str, chart: str) -> Callable[[Cluster], None]:
    return lambda cluster: cluster.get("Deployment", name)["metadata"]["labels"].update(
        {"helm.sh/chart": chart}
    )


def _no_chart(cluster: Cluster) -> None:
    del cluster.objects["apps/v1", "Deployment"]["kube-system", "karpenter"]


def _gate(cluster: Cluster) -> None:
    container = {"name": "controller", "env": [{"name": "FEATURE_GATES", "value": "NodeOverlay=false"}]}
    cluster.get("Deployment", "karpenter")["spec"]["template"]["spec"]["containers"] = [container]


def _pointed_elsewhere(cluster: Cluster) -> None:
    for node in ("node-0", "node-1"):
        del cluster.objects["v1", "Node"][None, node]
    cluster.get("ClusterPolicy", "cluster-policy")["spec"]["migManager"]["config"]["name"] = "theirs"


def _argo(cluster: Cluster) -> None:
    cluster.get("NodePool", "shared")["metadata"]["managedFields"].append(
        {"manager": "argocd-controller", "operation": "Apply", "fieldsV1": {}}
    )


def _class(cluster: Cluster) -> None:
    values = {"status": "False", "message": "no subnets", "lastTransitionTime": stamp(600)}
    _condition(cluster, "EC2NodeClass", "shared", "Ready", **values)


CASES: dict[str, tuple[Callable[[Cluster], None], str, str, str]] = {
    "node not ready for a moment": (_not_ready(30), "starting", "settling", "kubelet stopped"),
    "node not ready for long": (_not_ready(limits.NOT_READY + 1), "not-ready", "drift", "kubelet stopped"),
    "MIG manager at work": (_mig_state("pending", 60), "operator-applying", "settling", "pending for 60 s"),
    "MIG manager reboots": (_mig_state("rebooting", 300), "operator-applying", "settling", "rebooting"),
    "MIG manager stuck": (_mig_state("pending", limits.MIG + 1), "mig-stuck", "drift", "has not finished"),
    "GPU unhealthy": (_unhealthy, "device-unhealthy", "drift", "1 nvidia.com/gpu as unhealthy"),
    "plugin silent": (_silent, "plugin-silent", "drift", "has registered nothing"),
    "plugin crashes": (_crash_loop, "plugin-crashed", "drift", "CrashLoopBackOff no such configuration"),
    "plugin starts": (_starting_pod, "operator-applying", "settling", "pod plugin-x starts"),
    "resources of another strategy": (_strategy, "wrong-strategy", "drift", "a different sharing mode"),
    "claim not launched for a moment": (_stopped(60), "claim-starting", "settling", "no capacity"),
    "claim not launched for long": (_stopped(limits.LAUNCH + 1), "claim-stuck", "drift", "no capacity"),
    "claim that can't leave": (_leaving, "claim-leaving", "warning", "terminating for 2 h"),
    "node of an earlier version": (_outdated(60), "outdated", "settling", "earlier version"),
    "node that is not replaced": (_outdated(limits.REPLACEMENT + 1), "outdated", "drift", "earlier version"),
    "full pool for a moment": (_waiting(10), "at-limit", "settling", "1 pods wait"),
    "full pool": (_waiting(limits.PENDING + 1), "at-limit", "drift", "2 of 2 nodes"),
    "chart missing": (_no_chart, "release-missing", "drift", "karpenter 1.14.1 is missing"),
    "another release": (
        _chart("karpenter", "karpenter-1.9.0"),
        "release-version",
        "drift",
        "karpenter-1.9.0",
    ),
    "gate off": (_gate, "gate-off", "drift", "counts physical GPUs"),
    "operator pointed elsewhere": (_pointed_elsewhere, "operator-settings", "drift", "ConfigMap theirs"),
    "class not ready": (_class, "not-accepted", "drift", "no subnets"),
    "two deliverers": (_argo, "two-deliverers", "warning", "Argo CD"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_is_reported_with_its_reason_and_level(name: str) -> None:
    cluster = Cluster()
    cluster.node("shared")
    cluster.node("parted", "node-1")
    change, kind, level, reason = CASES[name]
    change(cluster)
    found = [drift for drift in cluster.examine() if drift.code == kind]
    assert kinds(found) == [(kind, level)], cluster.examine()
    assert reason in found[0].what
    assert found[0].remediation


def test_one_cause_is_one_row() -> None:
    cluster = Cluster()
    cluster.node("shared")["metadata"]["labels"]["nvidia.com/device-plugin.config"] = "other"
    _silent(cluster)
    assert kinds(cluster.examine()) == [("wrong-config-key", "drift")]


def test_nodes_that_exist_already() -> None:
    cluster = Cluster(STATIC)
    cluster.add(
        {
            "apiVersion": "nvidia.com/v1",
            "kind": "ClusterPolicy",
            "metadata": {"name": "cluster-policy"},
            "spec": {
                **cluster.get("ClusterPolicy", "cluster-policy")["spec"],
                "daemonsets": {"tolerations": [{"operator": "Exists"}]},
            },
        }
    )
    missing = cluster.examine()
    assert [(drift.code, drift.object) for drift in missing] == [
        ("node-missing", "Node lab-0"),
        ("node-missing", "pool rack"),
    ]
    cluster.node("desk", "lab-0")
    cluster.node("rack", "lab-1")
    assert cluster.examine() == ()
    # The label of the rack makes the desk's node a node of two pools.
    cluster.get("Node", "lab-0")["metadata"]["labels"]["rack"] = "one"
    assert ("two-pools", "drift") in kinds(cluster.examine())
    cluster.get("Node", "lab-0")["metadata"]["labels"].pop("rack")
    cluster.get("Node", "lab-1")["spec"]["taints"] = []
    (bare,) = cluster.examine()
    assert bare.code == "taint"
    assert bare.remediation == "gpupool refresh lab && gpupool up lab"


def test_a_pool_that_is_being_repartitioned_is_settling() -> None:
    cluster = Cluster()
    cluster.node("shared")
    cluster.node("parted", "node-1")
    cluster.get("ClusterPolicy", "cluster-policy")["spec"]["devicePlugin"]["config"]["name"] = "both-shapes"
    _strategy(cluster)
    _unhealthy(cluster)
    metadata = {"name": "gpupool-repartition", "namespace": "gpupool-system"}
    journal = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    cluster.add({**journal, "data": {"journal.json": '{"pool": "parted"}'}}, "gpupool-repartition", age=600)
    found = {drift.object: (drift.code, drift.category.value) for drift in cluster.examine()}
    assert found["pool parted"] == ("repartition", "settling")
    assert found["Node node-1"][1] == "settling"
    # The other pool's node is not at rest because of it.
    assert found["Node node-0"][1] == "drift"


def test_an_environment_that_was_never_applied_is_one_row() -> None:
    cluster = Cluster()
    cluster.objects = {}
    (first, *others) = [drift for drift in cluster.examine() if drift.code == "missing"]
    assert others == []
    assert first.object == "environment trial"
    assert first.remediation == "gpupool up trial"


def test_the_cluster_of_another_environment_is_one_row() -> None:
    """Each of its objects would differ, and no repair of any may be run."""
    cluster = Cluster()
    for held in cluster.objects.values():
        for row in held.values():
            have = row["metadata"].get("labels") or {}
            if "gpupool.dev/environment" in have:
                have["gpupool.dev/environment"] = "local"
    (only,) = cluster.examine()
    assert (only.code, only.category.value) == ("other-environment", "drift")
    assert "this cluster belongs to environment local" in only.what
    assert "gpupool assert local" in only.remediation
