"""The queue's chart on the real control plane: installed, upgraded, rolled back and uninstalled by helm.

KWOK's nodes only say that pods run; that the command takes the pods' arguments is in test_chart, and what it
serves in tests/queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pykube import HTTPClient
from pytest_helm_charts.clusters import ExistingCluster
from pytest_helm_charts.k8s.deployment import wait_for_deployments_to_run

from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.generators import namespaces, rbac
from gpupool.local.control_plane import ControlPlane
from tests.cluster.kube import Kube
from tests.cluster.queue.helm import CHART, ENVIRONMENT, MONITOR, RELEASE, Helm
from tests.queue.api.served import local_plan
from tests.required_programs import require

KINDS = (
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("apps/v1", "Deployment"),
    ("batch/v1", "Job"),
    ("policy/v1", "PodDisruptionBudget"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
)
DEPLOYMENTS = [RELEASE, f"{RELEASE}-dispatcher", f"{RELEASE}-executor"]


@pytest.fixture
def helm(cluster: Kube, control_plane: ControlPlane, make_node: Callable[..., str], tmp_path: Path) -> Helm:
    """On a cluster with a node and what gpupool itself has made: the namespace, which enforces Pod Security's
    restricted level, and the accounts."""
    made = [*namespaces.generate(local_plan()), *rbac.generate(local_plan())]
    cluster.apply(*(dict(one.body) for one in made if SYSTEM_NAMESPACE in (one.name, one.namespace)))
    for name in ("n1", "n2"):
        make_node(name, labels={"kubernetes.io/hostname": name})
    return Helm(require("helm")["helm"], tmp_path, control_plane.kubeconfig)


@pytest.fixture
def client(control_plane: ControlPlane) -> Iterator[HTTPClient]:
    """The control plane as pytest-helm-charts uses one that it did not make."""
    existing = ExistingCluster(str(control_plane.kubeconfig))
    yield existing.create()
    existing.destroy()


def ours(cluster: Kube) -> dict[str, list[str]]:
    """Names of the release's objects by kind."""
    selector = f"app.kubernetes.io/instance={RELEASE}"
    found = {kind: cluster.api.list(api, kind, SYSTEM_NAMESPACE, selector) for api, kind in KINDS}
    return {kind: sorted(one["metadata"]["name"] for one in rows) for kind, rows in found.items() if rows}


def image(cluster: Kube) -> str:
    live = cluster.api.get("apps/v1", "Deployment", RELEASE, SYSTEM_NAMESPACE)
    assert live is not None
    found: str = live["spec"]["template"]["spec"]["containers"][0]["image"]
    return found


def environment(cluster: Kube) -> Any:
    """The environment file as pods would read it."""
    live = cluster.api.get("v1", "ConfigMap", RELEASE, SYSTEM_NAMESPACE)
    assert live is not None
    return yaml.safe_load(live["data"]["environments.charted.yaml"])


def migrations(cluster: Kube) -> int:
    """How often the hook's Job has completed."""
    events = cluster.api.list("v1", "Event", SYSTEM_NAMESPACE)
    return sum(
        one["reason"] == "Completed" and one["involvedObject"]["name"] == f"{RELEASE}-migration"
        for one in events
    )


def test_install_upgrade_rollback_uninstall(helm: Helm, cluster: Kube, client: HTTPClient) -> None:
    before = ours(cluster)
    helm.done("install", RELEASE, str(CHART), "--timeout", "4m")
    wait_for_deployments_to_run(client, DEPLOYMENTS, SYSTEM_NAMESPACE, timeout_sec=240)
    assert ours(cluster) == before | {
        "ConfigMap": [RELEASE],
        "Service": [RELEASE],
        "Deployment": DEPLOYMENTS,
        "PodDisruptionBudget": DEPLOYMENTS,
        "NetworkPolicy": [*DEPLOYMENTS, f"{RELEASE}-migration"],
    }, "the hook's Job is gone, and nothing else is missing"
    assert migrations(cluster) == 1
    pods = cluster.api.list("v1", "Pod", SYSTEM_NAMESPACE, f"app.kubernetes.io/instance={RELEASE}")
    nodes = {
        name: {one["spec"]["nodeName"] for one in pods if one["metadata"]["name"].startswith(name)}
        for name in (f"{RELEASE}-dispatcher", f"{RELEASE}-executor")
    }
    assert set(map(len, nodes.values())) == {2}, "each on two nodes"

    first, text = image(cluster), ENVIRONMENT.read_text()
    new = {
        "image": "registry.example.com/gpupool:0.2.0",
        "files": {"environments/charted.yaml": text.replace("gpus: 1}}}", "gpus: 0}}}")},
        "executor": {"replicas": 1},
    }
    helm.done("upgrade", RELEASE, str(CHART), "--wait", "--timeout", "4m", values=new)
    assert image(cluster) == new["image"]
    assert environment(cluster)["tenants"][0]["pools"] == {"notebooks": {"gpus": 0}}
    assert ours(cluster)["PodDisruptionBudget"] == DEPLOYMENTS[:2]
    assert migrations(cluster) == 2, "tables are migrated before each new version"

    refused = helm.run("upgrade", RELEASE, str(CHART), values={"api": {"replicas": -1}})
    assert "replicas" in refused.stderr
    assert image(cluster) == new["image"], "nothing has changed"

    helm.done("rollback", RELEASE, "1", "--wait", "--timeout", "4m")
    assert image(cluster) == first
    assert environment(cluster) == yaml.safe_load(text)
    assert ours(cluster)["PodDisruptionBudget"] == DEPLOYMENTS

    helm.done("uninstall", RELEASE, "--wait", "--timeout", "4m")
    assert ours(cluster) == before
    for account in ("gpupool-api", "gpupool-launcher"):
        assert cluster.api.get("v1", "ServiceAccount", account, SYSTEM_NAMESPACE), "not the chart's to delete"


def test_the_server_knows_every_field(helm: Helm, monitored: Kube) -> None:
    """Helm lets the server drop fields that it does not know: a typing error would go unnoticed."""
    made = helm.template(MONITOR)
    assert "ServiceMonitor" in {body["kind"] for body in made}
    for body in made:
        monitored.api.apply(body, "test", dry_run=True)
