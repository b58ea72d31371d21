"""The namespace that the operator runs in, from a cluster's objects and from files of what installs it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpupool.adopt.convert.convert import Conversion
from tests.adopt.convert.test_cluster import OURS, imported, node, policy, thing
from tests.adopt.convert.test_wrappers import NODE, OPENED, converted

NODES = (node("a", "Tesla-T4"),)


def written(result: Conversion) -> dict[str, Any]:
    operator: dict[str, Any] = yaml.safe_load(result.text).get("gpuOperator", {})
    return operator


def test_olm_by_its_subscription_and_its_service_version() -> None:
    """The ClusterPolicy of OLM is made by hand and carries no mark."""
    name, where = "gpu-operator-certified", "nvidia-gpu-operator"
    bare = thing("ClusterPolicy", "gpu-cluster-policy", "nvidia.com/v1", spec={})
    group = "operators.coreos.com/v1alpha1"
    for sign in (
        thing("Subscription", "gpus", group, where, spec={"name": name, "channel": "v26.3"}),
        thing("ClusterServiceVersion", f"{name}.v26.3.3", group, where, spec={}),
    ):
        found = written(converted(NODE, bare, sign))
        assert found["namespace"] == where
        assert (found["install"], found["clusterPolicy"]) == (False, "gpu-cluster-policy")


def test_helm_in_another_namespace() -> None:
    helm = policy()
    helm["metadata"]["annotations"] = {"meta.helm.sh/release-namespace": "nvidia"}
    data, _ = imported(*NODES, helm)
    assert data["gpuOperator"]["namespace"] == "nvidia"


def test_labels_alone() -> None:
    labels = {"operators.coreos.com/gpu-operator-certified.gpus-of-olm": ""}
    data, _ = imported(*NODES, thing("ClusterPolicy", "p", "nvidia.com/v1", labels=labels, spec={}))
    assert data["gpuOperator"]["namespace"] == "gpus-of-olm"


def test_the_usual_namespace_is_not_written() -> None:
    usual = {**policy(), "status": {"state": "ready", "namespace": "gpu-operator"}}
    data, _ = imported(*NODES, usual)
    assert "namespace" not in data["gpuOperator"]


def test_kyvernos_policies_are_no_sign() -> None:
    other = {
        **thing("ClusterPolicy", "require", "kyverno.io/v1", spec={}),
        "status": {"namespace": "kyverno"},
    }
    data, result = imported(*NODES, policy(), other)
    assert "namespace" not in data["gpuOperator"]
    assert "kyverno.io" not in result.text
    alone = written(converted(NODE, other))
    assert alone.get("install") is not False, "it is no operator of GPUs"


def test_an_operator_that_gpupool_installed_elsewhere() -> None:
    there = {**policy(), "status": {"state": "ready", "namespace": "nvidia"}}
    data, _ = imported(*NODES, there, thing("Namespace", "nvidia", labels=OURS))
    assert data["gpuOperator"]["namespace"] == "nvidia"
    assert "install" not in data["gpuOperator"], "the namespace is gpupool's"


PLACES = {
    "Flux": ("spec", "targetNamespace"),
    "k3s": ("spec", "targetNamespace"),
    "Argo CD, text": ("spec", "destination", "namespace"),
    "Argo CD, several": ("spec", "template", "spec", "destination", "namespace"),
    "Crossplane": ("spec", "forProvider", "namespace"),
    "Cluster API": ("spec", "namespace"),
    "kustomize": ("helmCharts", 0, "namespace"),
    "helmfile": ("releases", 1, "namespace"),
    "Fleet": ("defaultNamespace",),
}


@pytest.mark.parametrize("tool", PLACES)
def test_where_a_tool_installs_the_chart(tool: str) -> None:
    wrapper = yaml.safe_load(yaml.safe_dump(OPENED[tool]))
    inner: Any = wrapper
    *path, last = PLACES[tool]
    for key in path:
        inner = inner[key] if isinstance(key, int) else inner.setdefault(key, {})
    inner[last] = "chosen"
    result = converted(NODE, wrapper)
    assert written(result)["namespace"] == "chosen"
    assert not [entry for entry in result.leftovers if entry.value == "chosen"]
