"""NVIDIA's and Karpenter's charts through Pulumi's provider: installed, changed, removed, and cut short."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.environment import shipped
from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import gpu_operator, karpenter
from gpupool.generators.manifest import HelmRelease
from gpupool.infra import chart_records
from gpupool.infra.chart_records import ForeignReleaseError
from gpupool.infra.stack import StackError
from gpupool.live.cluster.kube_api import MERGE
from gpupool.local import crds
from gpupool.local.nvidia_operator import files
from gpupool.programs.failures import LocalError
from tests.cluster.pulumi.chart_repository import ChartRepository, chart_repository
from tests.cluster.pulumi.conftest import kill_all
from tests.required_programs import absent, require

PATIENCE = 300
UP = """
import sys
from gpupool.environment import shipped
from gpupool.live.cluster.kube_api import MERGE
from gpupool.generators import gpu_operator, karpenter
gpu_operator.REPOSITORY = sys.argv.pop(1)
from gpupool.cli import main
main.run()
"""
"""The `gpupool` command, with another chart repository."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChartRepository]:
    """The chart repository of the environment's operator."""
    helm = require("helm")["helm"]
    try:
        files.fetch()
    except LocalError as error:
        absent(f"no chart of the GPU Operator: {error}")
    with chart_repository(helm, tmp_path) as served:
        for generator in (gpu_operator, karpenter):
            monkeypatch.setattr(generator, "REPOSITORY", served.url)
        yield served


@pytest.fixture
def charted(homelab: Any, make_node: Callable[..., str]) -> Iterator[Any]:
    """A static environment whose file installs the operator, on a cluster with room for its pods."""
    api = homelab.kube.api
    kinds = {row["metadata"]["name"] for row in api.list(*_DEFINITION)}
    api.delete("nvidia.com/v1", "ClusterPolicy", "cluster-policy")
    api.delete("v1", "Namespace", "gpu-operator")
    homelab.kube.wait("the namespace is gone", lambda: api.get("v1", "Namespace", "gpu-operator") is None)
    for zone in ("a", "b"):
        labels = {"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": zone}
        make_node(f"control-{zone}", labels={"node-role.kubernetes.io/control-plane": "", **labels})
    homelab.spec["gpuOperator"] = {"install": True}
    yield homelab
    for row in api.list(*_DEFINITION):
        if row["metadata"]["name"] not in kinds:
            api.delete(*_DEFINITION, row["metadata"]["name"])
    for kind in ("ClusterRoleBinding", "ClusterRole"):
        for row in api.list("rbac.authorization.k8s.io/v1", kind, None, "app.kubernetes.io/managed-by=Helm"):
            api.delete("rbac.authorization.k8s.io/v1", kind, row["metadata"]["name"])


_DEFINITION = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


def version(charted: Any) -> str:
    return read_plan(charted.file).gpu_operator.version


def records(charted: Any) -> list[tuple[int, str]]:
    """Revision and status of each of Helm's records of the release."""
    rows = charted.kube.api.list("v1", "Secret", "gpu-operator", "owner=helm,name=gpu-operator")
    labels = [row["metadata"]["labels"] for row in rows]
    return sorted((int(each["version"]), each["status"]) for each in labels)


def policy(charted: Any) -> Any:
    return charted.kube.api.get("nvidia.com/v1", "ClusterPolicy", "cluster-policy")


def ops(result: Any) -> dict[str, str]:
    return {entry.resource: entry.op for entry in result.objects}


def killed_at(charted: Any, repository: ChartRepository, variables: dict[str, str], status: str) -> None:
    """`gpupool up`, killed with all that belongs to it once Helm's record of the release has this status."""
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", UP, repository.url, "up", charted.file, "--yes"],
        cwd=root,
        env={**variables, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    until = time.monotonic() + PATIENCE
    while status not in {found for _, found in records(charted)}:
        assert process.poll() is None, process.communicate()[0].decode()
        assert time.monotonic() < until, records(charted)
        time.sleep(0.05)
    kill_all(process)


def test_a_chart_is_installed_changed_taken_back_and_removed(
    charted: Any, repository: ChartRepository
) -> None:
    before = charted.everything()
    repository.add(files.chart(), version(charted))
    assert ops(charted.preview())["Release/gpu-operator"] == "create"
    assert charted.everything() == before, "preview changed the cluster"
    charted.up()
    assert records(charted) == [(1, "deployed")]
    assert policy(charted)["spec"]["devicePlugin"]["config"]["name"].startswith("gpupool-device-plugin-")
    assert charted.up().objects == []

    charted.spec["gpuOperator"]["values"] = {"dcgm": {"enabled": True}}
    changed = charted.up()
    assert ops(changed) == {"Release/gpu-operator": "update"}
    assert policy(charted)["spec"]["dcgm"]["enabled"] is True
    assert records(charted)[-1] == (2, "deployed")
    del charted.spec["gpuOperator"]["values"]
    assert ops(charted.up()) == {"Release/gpu-operator": "update"}
    assert policy(charted)["spec"]["dcgm"]["enabled"] is False

    charted.destroy()
    assert policy(charted) is None
    assert charted.kube.api.get("v1", "Namespace", "gpu-operator") is None


def test_an_eks_environment_with_both_charts(charted: Any, repository: ChartRepository) -> None:
    """`dev` as it ships, on this cluster, but for queue and monitoring, which have tests of their own.
    Its Karpenter runs beside that of the control plane."""
    spec = yaml.safe_load((shipped.folder("environments") / "dev.yaml").read_text())
    del spec["cluster"]["kubeContext"], spec["queue"], spec["monitoring"]
    charted.spec = {**spec, "metadata": {"name": charted.spec["metadata"]["name"]}}
    plan = read_plan(charted.file)
    assert plan.karpenter is not None
    repository.add(files.chart(), plan.gpu_operator.version)
    karpenters = crds.module_folder("crds", "github.com/aws/karpenter-provider-aws") / "charts" / "karpenter"
    repository.add(karpenters, plan.karpenter.version)
    made = ops(charted.up())
    assert {"Release/gpu-operator", "Release/karpenter", "EC2NodeClass/notebooks"} <= made.keys()
    deployment = charted.kube.get("apps/v1", "Deployment", "karpenter", "kube-system")
    assert deployment["status"]["readyReplicas"] == 2
    settings = {row["name"]: row.get("value") for row in _container(deployment)["env"]}
    assert settings["CLUSTER_NAME"] == "ml-dev"
    assert charted.up().objects == []
    assert set(ops(charted.destroy()).values()) == {"delete"}
    assert charted.kube.api.get("apps/v1", "Deployment", "karpenter", "kube-system") is None


def _container(deployment: Any) -> Any:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return container


def test_an_installation_that_was_killed_is_completed(
    charted: Any, repository: ChartRepository, environment_variables: dict[str, str]
) -> None:
    repository.add(files.chart(), version(charted), install="8s", upgrade="8s")
    killed_at(charted, repository, environment_variables, "pending-install")
    done = charted.up()
    assert any("Helm worked on gpu-operator" in note for note in done.notes)
    assert records(charted) == [(1, "deployed")]
    assert charted.up().objects == []

    charted.spec["gpuOperator"]["values"] = {"dcgm": {"enabled": True}}
    killed_at(charted, repository, environment_variables, "pending-upgrade")
    charted.up()
    assert records(charted)[-1][1] == "deployed"
    assert policy(charted)["spec"]["dcgm"]["enabled"] is True
    assert charted.up().objects == []


def test_a_failing_hook_is_named_and_the_next_version_installs(
    charted: Any, repository: ChartRepository
) -> None:
    repository.add(files.chart(), version(charted), install="60s!")
    with pytest.raises(StackError, match=r"Release/?.*gpu-operator") as failed:
        charted.up()
    assert len(str(failed.value).splitlines()) <= 3
    assert "Traceback" not in str(failed.value)
    repository.add(files.chart(), "v99.0.0")
    charted.spec["gpuOperator"]["version"] = "v99.0.0"
    charted.up()
    assert records(charted)[-1][1] == "deployed"
    assert charted.up().objects == []


def test_a_lost_state_takes_the_release_over(charted: Any, repository: ChartRepository) -> None:
    """It is in a namespace of the environment."""
    repository.add(files.chart(), version(charted))
    charted.up()
    charted.forget()
    charted.up()
    assert records(charted) == [(1, "deployed")]
    assert charted.up().objects == []


def test_a_release_of_somebody_else_is_refused(kube: Any) -> None:
    """In a namespace that is not of the environment; by its record alone, which is left as it is."""
    labels = {"owner": "helm", "name": "karpenter", "status": "deployed", "version": "1"}
    name = {"name": "sh.helm.release.v1.karpenter.v1", "namespace": "default", "labels": labels}
    kube.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": name, "type": "helm.sh/release.v1"})
    release = HelmRelease("karpenter", "default", "karpenter", "https://charts.example", "1.0.0", {})
    try:
        with pytest.raises(ForeignReleaseError, match=r"^Helm release default/karpenter already exists"):
            chart_records.in_the_way(kube.api, "trial", [release], known=(), begun=())
        ours = {"Release/karpenter"}
        assert chart_records.in_the_way(kube.api, "trial", [release], ours, ()) == []
        path = f"/api/v1/namespaces/default/secrets/{name['name']}"
        patch = {"metadata": {"labels": {"status": "pending-upgrade"}}}
        kube.api.request("PATCH", path, None, patch, MERGE)
        assert chart_records.in_the_way(kube.api, "trial", [release], ours, ()) == [], "somebody is at it"
        assert chart_records.in_the_way(kube.api, "trial", [release], ours, ours) != []
        (begun,) = chart_records.in_the_way(kube.api, "trial", [release], (), {"Release/karpenter"})
        assert (begun.secret, begun.status) == (name["name"], "pending-upgrade")
    finally:
        kube.api.delete("v1", "Secret", name["name"], "default")


@pytest.mark.parametrize("address", ["", "http://127.0.0.1:9"], ids=["no such version", "no answer"])
def test_a_preview_without_the_chart_names_it(
    charted: Any, repository: ChartRepository, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """The repository has no chart of this version, or does not answer, as on a machine without a network."""
    monkeypatch.setattr(gpu_operator, "REPOSITORY", address or repository.url)
    repository.add(files.chart(), "v1.0.0")
    with pytest.raises(StackError) as failed:
        charted.preview()
    lines = str(failed.value).splitlines()
    assert len(lines) <= 2
    assert lines[0].startswith("Release/gpu-operator: ")
