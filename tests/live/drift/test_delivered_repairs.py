"""Where Argo CD or Flux delivers, a repair asks the object of theirs that has what is to be put back."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from gpupool.generators import delivery
from tests.live.drift.fake_cluster import EKS, STATIC, Cluster, Object

DELIVERED = (
    EKS
    + "priorities: [{name: training, value: 100, level: low}]\n"
    + "delivery: {engine: %s, repo: 'https://git.example.com/ml/platform.git', path: rendered/trial}\n"
)
ARGOCD = "kubectl -n argocd patch application {} --type=merge"
WAVES = "kubectl -n flux-system annotate kustomization -l gpupool.dev/environment=trial reconcile"
CHART = "kubectl -n flux-system annotate helmrelease {} reconcile"
MANAGERS = {"argocd": "argocd-controller", "flux": "kustomize-controller"}


def delivered(engine: str, more: str = "") -> Cluster:
    text = DELIVERED % engine
    cluster = Cluster(text.replace("path: rendered/trial", f"path: rendered/trial, {more}") if more else text)
    for held in cluster.objects.values():
        for row in held.values():
            row["metadata"]["managedFields"][0]["manager"] = MANAGERS[engine]
    return cluster


def _lose(kind: str, name: str) -> Callable[[Cluster], None]:
    def change(cluster: Cluster) -> None:
        for held in cluster.objects.values():
            for key, body in list(held.items()):
                if (body["kind"], body["metadata"]["name"]) == (kind, name):
                    del held[key]

    return change


def _old_chart(cluster: Cluster) -> None:
    cluster.get("Deployment", "karpenter")["metadata"]["labels"]["helm.sh/chart"] = "karpenter-1.0.0"


def _gate_off(cluster: Cluster) -> None:
    gates = {"env": [{"name": "FEATURE_GATES", "value": "NodeOverlay=false"}]}
    cluster.get("Deployment", "karpenter")["spec"]["template"]["spec"]["containers"] = [gates]


def _pointed_elsewhere(cluster: Cluster) -> None:
    cluster.get("ClusterPolicy", "cluster-policy")["spec"]["devicePlugin"]["config"]["name"] = "theirs"


def _left_over(cluster: Cluster) -> None:
    added = cluster.get("PriorityClass", "training")
    body: Object = {**added, "metadata": {**added["metadata"], "name": "former"}}
    cluster.add(body)


CASES = {
    "quota": ("missing", _lose("ResourceQuota", "gpupool"), ""),
    "priority": ("missing", _lose("PriorityClass", "training"), "priorities"),
    "priority that is no longer wanted": ("extra", _left_over, "priorities"),
    "chart": ("release-missing", _lose("Deployment", "karpenter"), "karpenter"),
    "chart of another release": ("release-version", _old_chart, "karpenter"),
    "value of a chart": ("gate-off", _gate_off, "karpenter"),
    "object of a chart": ("operator-settings", _pointed_elsewhere, "gpu-operator"),
}
CHARTS = ("karpenter", "gpu-operator")


@pytest.mark.parametrize("engine", MANAGERS)
@pytest.mark.parametrize("case", CASES)
def test_who_delivers_is_asked_to_put_things_back(engine: str, case: str) -> None:
    """`gpupool up` must not, where Argo CD or Flux does; and their field manager is known."""
    kind, change, part = CASES[case]
    cluster = delivered(engine)
    assert cluster.examine() == ()
    change(cluster)
    (found,) = cluster.examine()
    assert found.code == kind
    name = "-".join(filter(None, ("gpupool-trial", part)))
    if engine == "argocd":
        wanted = [ARGOCD.format(name)]
    else:
        wanted = [WAVES] + ([CHART.format(name)] if part in CHARTS else [])
    assert found.remediation.count("kubectl") == len(wanted)
    for command in wanted:
        assert command in found.remediation
    bodies = [body for body in delivery.wrappers(cluster.bundle).values() if "metadata" in body]
    rendered = {(body["kind"].lower(), body["metadata"]["name"]) for body in bodies}
    assert set(re.findall(r"(application|helmrelease) (\S+)", found.remediation)) <= rendered


def test_a_chart_is_installed_anew_though_its_release_is_the_same() -> None:
    """helm-controller does so only where both annotations have one value."""
    cluster = delivered("flux")
    _lose("Deployment", "karpenter")(cluster)
    (found,) = cluster.examine()
    values = re.findall(r'reconcile\.fluxcd\.io/(requestedAt|forceAt)=("\$at")', found.remediation)
    assert values == [("requestedAt", '"$at"'), ("forceAt", '"$at"')]


def test_a_node_waits_for_all_that_it_lacks() -> None:
    """The operator's settings point elsewhere, and the node's label names nothing there."""
    cluster = delivered("argocd")
    node = cluster.node("shared")
    del node["metadata"]["labels"]["nvidia.com/device-plugin.config"]
    _pointed_elsewhere(cluster)
    (found,) = [drift for drift in cluster.examine() if drift.code == "wrong-config-key"]
    assert found.remediation.startswith(ARGOCD.format("gpupool-trial gpupool-trial-gpu-operator"))
    assert found.remediation.endswith("--overwrite")


def test_an_environment_that_was_never_applied_asks_for_all_of_it() -> None:
    cluster = delivered("argocd")
    cluster.objects = {}
    first = next(drift for drift in cluster.examine() if drift.code == "missing")
    assert ARGOCD.format("gpupool-trial gpupool-trial-priorities") in first.remediation


KEPT = {
    "argocd": {"argocd.argoproj.io/sync-options": "Prune=false,Delete=confirm"},
    "flux": {"kustomize.toolkit.fluxcd.io/prune": "disabled"},
}


@pytest.mark.parametrize(
    ("engine", "removal", "level"),
    [("argocd", "confirm", "drift"), ("argocd", "keep", "warning"), ("flux", "keep", "warning")],
)
def test_what_they_keep_is_deleted_by_a_person(engine: str, removal: str, level: str) -> None:
    """However often they are asked, they would not."""
    cluster = delivered(engine, f"onRemoval: {removal}")
    pool = cluster.get("NodePool", "shared")
    metadata = {**pool["metadata"], "name": "former", "annotations": KEPT[engine]}
    cluster.add({**pool, "metadata": metadata})
    (found,) = cluster.examine()
    assert (found.code, found.object, found.category.value) == ("extra", "NodePool former", level)
    assert found.remediation == "kubectl delete nodepool former"


GROUP = (
    STATIC.replace("platform: static", "platform: aks")
    .replace("gpuOperator: {install: false}", "gpuOperator: {driver: {enabled: false}}")
    .replace("  - name: desk\n    gpu: rtx-4090\n    nodes: {names: [lab-0]}\n", "")
    + "delivery: {engine: %s, repo: 'https://git.example.com/ml/platform.git', path: rendered/lab}\n"
)
"""A pool of a node group that a selector chooses, with the taint that every pool has."""


@pytest.mark.parametrize("engine", MANAGERS)
def test_of_nodes_that_a_selector_chooses_nothing_is_in_git(engine: str) -> None:
    cluster = Cluster(GROUP % engine)
    assert [manifest.name for manifest in cluster.bundle if manifest.kind == "Node"] == []
    cluster.node("rack")
    assert [drift for drift in cluster.examine() if drift.layer in ("nodes", "slices")] == []


@pytest.mark.parametrize("engine", MANAGERS)
@pytest.mark.parametrize("label", ["gpupool.dev/pool", "nvidia.com/device-plugin.config"])
def test_a_label_that_a_node_group_has_not_set_is_set_there(engine: str, label: str) -> None:
    cluster = Cluster(GROUP % engine)
    value = cluster.node("rack")["metadata"]["labels"].pop(label)
    (found,) = [drift for drift in cluster.examine() if drift.layer in ("nodes", "slices")]
    assert (found.object, found.path) == ("Node node-0", f"metadata.labels[{label}]")
    assert "set it on the node group: az aks nodepool update --labels " in found.what
    assert f"{label}={value}" in found.what
    assert found.remediation.startswith("kubectl label node node-0")
    assert "application" not in found.remediation


def test_a_taint_that_a_node_group_has_not_set_is_set_there() -> None:
    cluster = Cluster(GROUP % "argocd")
    cluster.node("rack")["spec"]["taints"] = []
    (found,) = [drift for drift in cluster.examine() if drift.layer == "nodes"]
    assert "--node-taints gpupool.dev/pool=rack:NoSchedule" in found.what
    assert found.remediation.startswith("kubectl taint node node-0")


def test_with_pulumi_up_labels_the_nodes() -> None:
    cluster = Cluster(
        (GROUP % "pulumi").replace(
            ", repo: 'https://git.example.com/ml/platform.git', path: rendered/lab", ""
        )
    )
    cluster.node("rack")["spec"]["taints"] = []
    (found,) = [drift for drift in cluster.examine() if drift.layer == "nodes"]
    assert "node group" not in found.what
    assert "gpupool up" in found.remediation
