"""What other teams run is taken by a real API server with the policies of each shipped environment, and of
one with everything that policies are about: workloads and the pods that they make, without a warning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.environment.plan.model import SYSTEM_NAMESPACE, Plan
from gpupool.environment.plan.policy_files import BINDING, POLICY
from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.load import environment_names
from gpupool.generators import generate
from gpupool.local.control_plane import ControlPlane
from tests.admission import document_of, judge_of
from tests.cluster.kube import Kube
from tests.cluster.policies.server import Server

Object = dict[str, Any]
ROOT = Path(__file__).parents[3]
OBJECTS: list[Object] = [
    body for body in yaml.safe_load_all((ROOT / "tests" / "other_teams.yaml").read_text("utf-8")) if body
]
_CONTAINMENT = "containment"
_FILES = {_CONTAINMENT: str(ROOT / "tests" / "cluster" / "containment" / "environment.yaml")}
_RUNTIME = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}


def pods_of(body: Object) -> Iterator[Object]:
    """The pod that a workload makes, as its controller sends it."""
    spec = body.get("spec", {})
    template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
    if template is None or body["kind"] == "NodePool":
        return
    metadata = {**template["metadata"], "name": "of-it", "namespace": body["metadata"]["namespace"]}
    yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane, kube: Kube) -> Iterator[Server]:
    """A cluster with the namespaces of other teams."""
    kube.wipe()
    kube.api.create(_RUNTIME)
    names = {body["metadata"].get("namespace", "default") for body in OBJECTS} | {SYSTEM_NAMESPACE}
    for name in sorted(names - {"default", "kube-system"}):
        kube.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for name in sorted(names):
        kube.wait(f"{name} has its account", lambda n=name: kube.get("v1", "ServiceAccount", "default", n))
    yield Server(control_plane.kubeconfig)
    kube.api.delete("node.k8s.io/v1", "RuntimeClass", "nvidia")
    kube.wipe()


@pytest.fixture
def enforced(server: Server, kube: Kube, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """The server with the policies and parameters of an environment in force."""
    plan = plan_of(request.param, tmp_path)
    bodies = [
        dict(manifest.body)
        for manifest in generate(plan)
        if manifest.kind in (POLICY, BINDING)
        or (manifest.kind == "ConfigMap" and manifest.namespace == SYSTEM_NAMESPACE)
    ]
    for body in bodies:
        kube.api.create(body)
    denials = [
        finding.message for finding in judge_of(plan).judge(document_of(lost())) if finding.level == "deny"
    ]
    kube.wait(
        "the policies are in force",
        lambda: any(denial in server.ask("CREATE", lost()).message for denial in denials),
    )
    yield server
    for body in bodies:
        where = body["metadata"].get("namespace")
        kube.api.delete(body["apiVersion"], body["kind"], body["metadata"]["name"], where)
    kube.wait("they are not", lambda: "denied request" not in server.ask("CREATE", lost()).message)


def plan_of(name: str, folder: Path) -> Plan:
    if name not in _FILES:
        return read_plan(name)
    file = folder / f"{name}.yaml"
    file.write_text(Path(_FILES[name]).read_text("utf-8"), encoding="utf-8")
    return read_plan(str(file))


def lost() -> Object:
    """A pod on a pool that there is not."""
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    container = {"name": "work", "image": "registry.example/ml/work:1", **limits}
    spec = {"nodeSelector": {"gpupool.dev/pool": "nosuch"}, "containers": [container]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "lost", "namespace": "shop"},
        "spec": spec,
    }


@pytest.mark.parametrize("enforced", [_CONTAINMENT, *environment_names()], indirect=True)
def test_nothing_is_refused(enforced: Server) -> None:
    answers = {
        f"{body['kind']} {owner['metadata']['name']}": enforced.ask("CREATE", body)
        for owner in OBJECTS
        for body in (owner, *pods_of(owner))
    }
    assert len(answers) > len(OBJECTS)
    assert {name: answer.message for name, answer in answers.items() if answer.message} == {}
    warnings = {name: answer.warnings for name, answer in answers.items()}
    assert {name: texts for name, texts in warnings.items() if "ValidatingAdmission" in str(texts)} == {}
