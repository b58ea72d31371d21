"""Kinds, the pods inside workloads, and what is reported for fields that no kind has; defaults have a test
with a real server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from vapcheck import Kinds, from_bodies
from vapcheck.server.admission_view import Doubt, as_admitted, pod_templates

KINDS = Kinds.builtin()
POD_SPEC = {"containers": [{"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}


def workload(api_version: str, kind: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", **metadata}, "spec": spec}


def test_pod_gets_requests_and_stays_untouched() -> None:
    pod = workload("v1", "Pod", copy.deepcopy(POD_SPEC))
    before = copy.deepcopy(pod)
    seen = as_admitted(pod, KINDS, operation="CREATE")
    assert seen["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "1"}
    assert seen["metadata"]["namespace"] == "default"
    assert pod == before


def test_quantities_are_one_value_however_written() -> None:
    seen = []
    for amount in (1, "1", "1000m", 1.0):
        spec = {"containers": [{"name": "c", "image": "x", "resources": {"limits": {"cpu": amount}}}]}
        pod = as_admitted(workload("v1", "Pod", spec), KINDS, operation="CREATE")
        seen.append(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"])
    assert seen == ["1"] * 4


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("9Ei", "9223372036854775807"),  # what has a binary suffix ends at an int64
        ("-8.5Ei", "-9223372036854775807"),
        ("m", "0"),  # a suffix alone is no mistake
        (".", "0"),
        ("-1500u", "-2m"),  # away from zero, to thousandths
    ],
)
def test_quantities_at_their_limits(written: str, stored: str) -> None:
    """As resource.ParseQuantity and RoundUp of apimachinery 0.36 have them."""
    spec = {"containers": [{"name": "c", "image": "x", "resources": {"limits": {"cpu": written}}}]}
    pod = as_admitted(workload("v1", "Pod", spec), KINDS, operation="CREATE")
    assert pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] == stored


def test_unknown_and_mistyped_fields_are_reported() -> None:
    doubts: list[Doubt] = []
    spec = {"contaners": [], "containers": [{"name": "c", "image": 5, "env": [{"name": "A", "valu": ""}]}]}
    seen = as_admitted(workload("v1", "Pod", spec), KINDS, operation="CREATE", doubts=doubts)
    reported = [(doubt.path, doubt.fatal, doubt.remediation) for doubt in doubts]
    assert reported == [
        ("spec.contaners", False, "did you mean containers?"),
        ("spec.containers[0].image", True, "quote it"),
        ("spec.containers[0].env[0].valu", False, "did you mean value?"),
    ]
    assert "contaners" not in seen["spec"]


@pytest.mark.parametrize(
    "spec", [None, [], "text", {"containers": {}}, {"containers": [None, 5]}, {"volumes": "x"}]
)
def test_broken_objects_do_not_crash(spec: Any) -> None:
    for kind in ("Pod", "Service", "PersistentVolume", "Node", "Namespace", "LimitRange"):
        as_admitted(workload("v1", kind, spec), KINDS, operation="CREATE", doubts=[])
    for kind in ("Deployment", "StatefulSet", "DaemonSet"):
        as_admitted(workload("apps/v1", kind, spec), KINDS, operation="CREATE", doubts=[])
        as_admitted(workload("apps/v1", kind, {"template": spec}), KINDS, operation="UPDATE", doubts=[])
        pod_templates(workload("apps/v1", kind, {"template": spec}))
    for kind in ("Job", "CronJob"):
        as_admitted(workload("batch/v1", kind, spec), KINDS, operation="CREATE", doubts=[])
        as_admitted(workload("batch/v1", kind, {"template": spec}), KINDS, operation="CREATE", doubts=[])


@pytest.mark.parametrize(
    ("api_version", "kind", "path", "named"),
    [
        ("apps/v1", "Deployment", "spec.template", {"generateName": "w-xxxxxxxxxx-"}),
        ("apps/v1", "ReplicaSet", "spec.template", {"generateName": "w-"}),
        ("apps/v1", "DaemonSet", "spec.template", {"generateName": "w-"}),
        ("apps/v1", "StatefulSet", "spec.template", {"name": "w-0"}),
        ("v1", "ReplicationController", "spec.template", {"generateName": "w-"}),
        ("batch/v1", "Job", "spec.template", {"generateName": "w-"}),
        ("batch/v1", "CronJob", "spec.jobTemplate.spec.template", {"generateName": "w-xxxxxxxxxx-"}),
    ],
)
def test_pods_inside_workloads(api_version: str, kind: str, path: str, named: dict[str, str]) -> None:
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"n": "1"}}, "spec": POD_SPEC}
    spec = {"jobTemplate": {"spec": {"template": template}}} if kind == "CronJob" else {"template": template}
    found = pod_templates(workload(api_version, kind, spec, namespace="team"))
    metadata = {**named, "namespace": "team", "labels": {"a": "b"}, "annotations": {"n": "1"}}
    assert found == [(path, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": POD_SPEC})]


def test_pods_of_operators() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}
    metadata = {"generateName": "w-", "namespace": "team", "labels": {"a": "b"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": POD_SPEC}

    def found(api_version: str, kind: str, spec: Any) -> list[tuple[str, Any]]:
        return pod_templates(workload(api_version, kind, spec, namespace="team"))

    groups = [{"template": template}, {"template": {"metadata": {}}}, None, {"template": template}]
    ray = {"headGroupSpec": {"template": template}, "workerGroupSpecs": groups}
    assert found("ray.io/v1", "RayCluster", ray) == [
        ("spec.headGroupSpec.template", pod),
        ("spec.workerGroupSpecs[0].template", pod),
        ("spec.workerGroupSpecs[3].template", pod),
    ]
    replicas = {"Master": {"template": template}, "Worker": {"template": template}}
    assert found("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": replicas}) == [
        ("spec.pytorchReplicaSpecs.Master.template", pod),
        ("spec.pytorchReplicaSpecs.Worker.template", pod),
    ]
    for broken in (None, [], "text", {"workerGroupSpecs": "x"}, {"headGroupSpec": [template]}):
        assert found("ray.io/v1", "RayCluster", broken) == []


def test_unknown_kinds_have_no_pods() -> None:
    assert pod_templates(workload("example.com/v1", "Deployment", {"template": {"spec": POD_SPEC}})) == []
    assert pod_templates(workload("v1", "Pod", POD_SPEC)) == []


def test_kinds() -> None:
    pods = KINDS.resource("v1", "Pod")
    assert pods is not None
    assert (pods.plural, pods.namespaced, pods.api_version) == ("pods", True, "v1")
    assert KINDS.by_plural("", "v1", "pods") == pods
    assert KINDS.by_plural("apps", "v1", "pods") is None
    scalers = KINDS.by_plural("autoscaling", "v2", "horizontalpodautoscalers")
    assert scalers is not None
    assert {row.version for row in KINDS.same(scalers)} == {"v1", "v2"}
    events = KINDS.by_plural("", "v1", "events")
    assert events is not None
    assert {row.group for row in KINDS.same(events)} == {"", "events.k8s.io"}


def test_schema_of_a_kind() -> None:
    schema = KINDS.schema("apps/v1", "Deployment")
    assert schema is not None
    pod = schema.properties["spec"].properties["template"].properties["spec"]
    containers, init = pod.properties["containers"].items, pod.properties["initContainers"].items
    assert containers is init
    assert containers is not None
    assert containers.name == "io.k8s.api.core.v1.Container"
    assert "imagePullPolcy" not in containers.properties


@pytest.mark.parametrize(
    "spec", [None, {}, {"names": 5}, {"versions": [{}]}, {"group": "a", "versions": None}]
)
def test_broken_definitions_add_nothing(spec: Any) -> None:
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    assert KINDS.with_crds(from_bodies([body], "f")) is KINDS
