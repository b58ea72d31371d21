"""Repairs that depend on where the cluster runs, and on what still uses an object."""

from __future__ import annotations

from copy import deepcopy

from gpupool.cli import assertion_text
from gpupool.generators import generate
from gpupool.live.cluster.snapshot import ClusterSnapshot
from gpupool.live.drift import Drift, examine
from gpupool.live.drift.check import DriftCheck
from tests.environment_files import environment_data, text_of
from tests.live.drift.fake_cluster import EKS, NOW, Cluster, plan_of

SHARED = {
    "name": "shared",
    "gpu": "t4",
    "sharing": {"mode": "time-slicing", "replicas": 4},
    "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 2},
}
LOCAL = text_of(environment_data("local", pools=[SHARED]))
OVERLAYS = ("karpenter.sh/v1alpha1", "NodeOverlay")
RESTORE = "gpupool refresh trial && gpupool up trial"


def _without_overlays(text: str) -> str:
    cluster = Cluster(text)
    cluster.objects.pop(OVERLAYS)
    seen = ClusterSnapshot(cluster.objects, NOW, frozenset({OVERLAYS}))
    found = examine(cluster.plan, cluster.bundle, seen, NOW)
    (unknown,) = [drift for drift in found if drift.code == "kind-unknown"]
    return unknown.remediation


def test_a_lost_definition_comes_back_before_its_objects() -> None:
    assert _without_overlays(LOCAL) == f"gpupool local up && {RESTORE}"
    karpenter = next(release for release in generate(plan_of(EKS)).releases if release.chart == "karpenter")
    assert _without_overlays(EKS) == (
        f"helm show crds {karpenter.repository}/karpenter --version {karpenter.version}"
        f" | kubectl apply --server-side --force-conflicts -f - && {RESTORE}"
    )


def _left(used: bool) -> Drift:
    """A configuration of an earlier file, as `up` or a repartition applies one."""
    cluster = Cluster()
    policy = cluster.get("ClusterPolicy", "cluster-policy")
    name = policy["spec"]["devicePlugin"]["config"]["name"]
    left = deepcopy(cluster.get("ConfigMap", name))
    left["metadata"]["name"] = "gpupool-device-plugin-0123456789"
    cluster.add(left, "gpupool")
    if used:
        policy["spec"]["devicePlugin"]["config"]["name"] = left["metadata"]["name"]
    (found,) = [drift for drift in cluster.examine() if drift.code == "extra"]
    return found


def test_a_configuration_that_nothing_uses_is_deleted() -> None:
    assert (
        _left(used=False).remediation
        == "kubectl -n gpu-operator delete configmap gpupool-device-plugin-0123456789"
    )


def test_a_configuration_in_use_is_left_to_up() -> None:
    assert _left(used=True).remediation == "gpupool up trial"


def test_one_command_is_printed_once() -> None:
    """The second run of a patch that takes a field away fails: the field is gone."""
    cluster = Cluster()
    for pool in ("shared", "parted"):
        cluster.get("NodePool", pool)["spec"]["weight"] = 7
    drifts = cluster.examine()
    assert [drift.remediation for drift in drifts] == [RESTORE, RESTORE]
    text = assertion_text.text(DriftCheck("trial", drifts, NOW, 0.0, 0, 0), colour=False)
    assert text.count(f"$ {RESTORE}") == 1
    assert text.count("(fixed by the same command as above)") == 1
