"""NVIDIA's controller with the values of every environment: operands run on our pools' nodes, and no others.

Its chart is installed by Helm, hooks included. The pods are KWOK's, so that no operand does anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.environment import OPERATOR_NAMESPACE
from gpupool.environment.spec.load import environment_names
from gpupool.local.control_plane import ControlPlane
from gpupool.local.nvidia_operator import files
from gpupool.local.nvidia_operator.node_features import LABELS
from tests.cluster.kube import Kube
from tests.cluster.operator.chart import RELEASE, Installer, values
from tests.cluster.operator.pool_nodes import POOL, nodes, objects, others
from tests.environment_combinations import LEGAL
from tests.environment_files import Data, plan_of
from tests.environment_strategies import environments
from tests.examples import examples

Object = dict[str, Any]
EVERYWHERE = {"nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-operator-validator"}
"""DaemonSets that a node with GPUs has, whatever the environment says."""
OWN_MIX = Path(__file__).with_name("own-mix.yaml")
"""Machines of one's own, whose driver the operator installs, with every effect of a taint."""
QUIET_SECONDS = 8.0
"""Longer than the controller's own interval of 5 s."""


class Operated:
    """A cluster with the operator; `kube` is its API."""

    def __init__(self, kube: Kube, installer: Installer, audit: Path) -> None:
        self.kube = kube
        self.installer = installer
        self._audit = audit
        self._before = audit.stat().st_size
        self._installed = False

    def apply(self, plan: Plan) -> None:
        """The environment's objects and a node of each pool, then the chart with the environment's values."""
        name = {"name": OPERATOR_NAMESPACE}
        self.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": name})
        for manifest in objects(plan):
            self.kube.api.apply(dict(manifest.body), "tests", force=True)
        for node in (*nodes(plan), *others()):
            self.kube.apply(node)
        verb = "upgrade" if self._installed else "install"
        # The rights of the controller's account are there already (gpupool.local.nvidia_operator).
        self.installer.helm("helm", verb, values(plan), "--take-ownership")
        self._installed = True

    def remove(self) -> None:
        """Uninstall the chart, and leave nothing."""
        if self._installed:
            self.installer.run("helm", "uninstall", RELEASE, "--namespace", OPERATOR_NAMESPACE)
        self._installed = False

    def refused(self) -> list[str]:
        """What rights or policies have denied the controller, and the maker of the operands' pods, so far."""
        with self._audit.open(encoding="utf-8") as log:
            log.seek(self._before)
            entries = [json.loads(line) for line in log if line.endswith("\n")]
        statuses = [(entry["verb"], entry["requestURI"], entry["responseStatus"]) for entry in entries]
        return [
            f"{verb} {path}: {status.get('message')}"
            for verb, path, status in statuses
            if status["code"] == 403 or "ValidatingAdmissionPolicy" in status.get("message", "")
        ]

    def policy(self) -> Object:
        return self.kube.get("nvidia.com/v1", "ClusterPolicy", "cluster-policy")

    def daemon_sets(self) -> dict[str, Object]:
        """Those of the operator alone: NFD's are the chart's."""
        found = self.kube.api.list("apps/v1", "DaemonSet", OPERATOR_NAMESPACE)
        return {
            one["metadata"]["name"]: one
            for one in found
            if any(owner["kind"] == "ClusterPolicy" for owner in one["metadata"].get("ownerReferences", ()))
        }

    def hosts(self, daemon_set: Object) -> set[str]:
        """The nodes on which it has pods that are ready."""
        uid = daemon_set["metadata"]["uid"]
        return {
            pod["spec"]["nodeName"]
            for pod in self.kube.running(OPERATOR_NAMESPACE)
            if any(owner["uid"] == uid for owner in pod["metadata"].get("ownerReferences", ()))
        }

    def ready(self, plan: Plan) -> None:
        """Wait until the controller says so of the ClusterPolicy, and every operand is where it belongs."""

        def check() -> bool:
            policy = self.policy()
            rows = {row["type"]: row for row in policy.get("status", {}).get("conditions", ())}
            assert policy.get("status", {}).get("state") == "ready", rows
            assert rows.get("Ready", {}).get("reason") == "Reconciled", rows
            self.operands_run_on(plan)
            return True

        self.kube.wait("the ClusterPolicy is ready", check)

    def operands_run_on(self, plan: Plan) -> None:
        """Every operand on every node of the pools that its selector is of, and on no other node."""
        labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in self.kube.nodes()}
        ours = {name for name, have in labels.items() if POOL in have}
        assert ours == {node["metadata"]["name"] for node in nodes(plan)}
        found = self.daemon_sets()
        assert found.keys() >= EVERYWHERE
        for name, one in found.items():
            selector = one["spec"]["template"]["spec"].get("nodeSelector", {})
            wanted = {node for node in ours if selector.items() <= labels[node].items()}
            assert self.hosts(one) == wanted, f"{name}: {self.hosts(one) ^ wanted}"
            assert name not in EVERYWHERE or wanted == ours, f"{name} selects {selector}"


@pytest.fixture(scope="module")
def kube(operated_plane: ControlPlane) -> Iterator[Kube]:
    found = Kube(operated_plane)
    yield found
    found.api.close()


@pytest.fixture
def operated(kube: Kube, operated_plane: ControlPlane, tmp_path: Path) -> Iterator[Operated]:
    installer = Installer(operated_plane.kubeconfig, files.chart(), tmp_path)
    found = Operated(kube, installer, operated_plane.layout.log("audit"))
    yield found
    cleared(found)


def cleared(operated: Operated) -> None:
    """With the ClusterPolicy go its operands, without anybody's help."""
    operated.remove()
    operated.kube.wait("its operands are gone", lambda: not operated.daemon_sets())
    operated.kube.wipe(frozenset({OPERATOR_NAMESPACE}))


def own_mix() -> Data:
    """The file of that name, to be changed."""
    data: Data = yaml.safe_load(OWN_MIX.read_text(encoding="utf-8"))
    return data | {"metadata": {"name": "random"}}


def mounted(daemon_set: Object) -> set[str]:
    """Names of the ConfigMaps that its pods have as files."""
    spec = daemon_set["spec"]["template"]["spec"]
    return {volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume}


def config_maps(plan: Plan) -> dict[str, str]:
    """Our ConfigMaps by the values that name them."""
    given = values(plan)
    return {
        part: given[part]["config"]["name"]
        for part in ("devicePlugin", "migManager", "dcgmExporter")
        if given.get(part, {}).get("config", {}).get("name")
    }


@pytest.mark.parametrize("name", [*environment_names(), str(OWN_MIX)])
def test_every_operand_runs_on_every_node_of_the_pools(operated: Operated, name: str) -> None:
    plan = read_plan(name)
    operated.apply(plan)
    operated.ready(plan)
    found, ours = operated.daemon_sets(), config_maps(plan)
    for operand in ("nvidia-device-plugin-daemonset", "gpu-feature-discovery"):
        assert ours["devicePlugin"] in mounted(found[operand])
    if "migManager" in ours:
        assert ours["migManager"] in mounted(found["nvidia-mig-manager"])
    if "dcgmExporter" in ours:
        assert ours["dcgmExporter"] in mounted(found["nvidia-dcgm-exporter"])
    (plugin,) = found["nvidia-device-plugin-daemonset"]["spec"]["template"]["spec"]["containers"][:1]
    variables = {row["name"]: row.get("value") for row in plugin["env"]}
    assert variables["MIG_STRATEGY"] == values(plan)["mig"]["strategy"]
    assert plugin["args"] == values(plan)["devicePlugin"].get("args", plugin["args"])
    events = operated.kube.api.list("v1", "Event", OPERATOR_NAMESPACE)
    assert [event["message"] for event in events if event["reason"] == "FailedCreate"] == []
    assert operated.refused() == []


@examples("operator", 4)
@given(environment=environments("eks", among=[it for it in LEGAL if it.nodes == "karpenter"]))
def test_any_environment_becomes_ready(
    kube: Kube,
    operated_plane: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
    environment: Data,
) -> None:
    folder = tmp_path_factory.mktemp("any")
    installer = Installer(operated_plane.kubeconfig, files.chart(), folder)
    operated = Operated(kube, installer, operated_plane.layout.log("audit"))
    plan = plan_of(environment)
    try:
        operated.apply(plan)
        operated.ready(plan)
        assert operated.refused() == []
    finally:
        cleared(operated)


def test_labels_are_written_once(operated: Operated) -> None:
    """By the controller, the operands and us: none takes back what another has written."""
    plan = read_plan(str(OWN_MIX))
    operated.apply(plan)
    operated.ready(plan)

    def written() -> Object:
        return {
            node["metadata"]["name"]: (node["metadata"]["labels"], node["spec"].get("taints"))
            for node in operated.kube.nodes()
        }

    before = written()
    versions = {name: one["metadata"]["generation"] for name, one in operated.daemon_sets().items()}
    for node in nodes(plan):
        have = before[node["metadata"]["name"]][0]
        assert (
            have.items() >= {**node["metadata"]["labels"], **LABELS, "nvidia.com/gpu.present": "true"}.items()
        )
    operated.kube.stays("labels and taints as they were", lambda: written() == before, QUIET_SECONDS)
    assert {name: one["metadata"]["generation"] for name, one in operated.daemon_sets().items()} == versions


def test_a_pool_more_and_a_pool_less_leave_the_driver_alone(operated: Operated) -> None:
    """A DaemonSet of the driver that changes has its nodes cordoned, one after the other."""
    data = own_mix()
    before = plan_of(data)
    operated.apply(before)
    operated.ready(before)
    driver = operated.daemon_sets()["nvidia-driver-daemonset"]["metadata"]
    data["pools"] += [{"name": "more", "gpu": "l4", "nodes": {"names": ["more-0"]}}]
    after = plan_of(data)
    operated.apply(after)
    operated.ready(after)
    assert operated.daemon_sets()["nvidia-driver-daemonset"]["metadata"]["generation"] == driver["generation"]
    operated.kube.api.delete("v1", "Node", "more-0")
    operated.apply(before)
    operated.ready(before)
    assert operated.daemon_sets()["nvidia-driver-daemonset"]["metadata"]["generation"] == driver["generation"]
    assert not [node for node in operated.kube.nodes() if node["spec"].get("unschedulable")]


def test_changed_sharing_reaches_the_operands(operated: Operated) -> None:
    data = own_mix()
    before = plan_of(data)
    operated.apply(before)
    operated.ready(before)
    data["pools"][0]["sharing"]["replicas"] = 4
    data["tenants"][0]["pools"]["ts-t4"]["slices"] = 4
    after = plan_of(data)
    assert config_maps(before)["devicePlugin"] != config_maps(after)["devicePlugin"]
    operated.apply(after)

    def follows() -> bool:
        found = mounted(operated.daemon_sets()["nvidia-device-plugin-daemonset"])
        assert config_maps(after)["devicePlugin"] in found
        assert config_maps(before)["devicePlugin"] not in found
        return True

    operated.kube.wait("the device plugin reads the new ConfigMap", follows)
    operated.ready(after)
