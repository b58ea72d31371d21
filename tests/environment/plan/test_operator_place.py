"""Where the GPU Operator runs, by each of the signs that a cluster or files give."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.environment.plan.operator_place import operator_place


def thing(api: str, kind: str, name: str = "x", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}


POLICY = ("nvidia.com/v1", "ClusterPolicy", "cluster-policy")
HELM = {"annotations": {"meta.helm.sh/release-namespace": "helm"}}
OWNED = {"ownerReferences": [{"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "c"}]}
KYVERNO = {"ownerReferences": [{"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "name": "c"}]}
OLM = "operators.coreos.com/gpu-operator-certified.nvidia-gpu-operator"
COMPONENT = {"app.kubernetes.io/component": "gpu-operator"}
CSV = ("operators.coreos.com/v1alpha1", "ClusterServiceVersion", "gpu-operator-certified.v26.3.3")
SIGNS = {
    "status": (thing(*POLICY, status={"state": "ready", "namespace": "said"}), "said"),
    "Helm": (thing(*POLICY, metadata=HELM), "helm"),
    "status before Helm": (thing(*POLICY, metadata=HELM, status={"namespace": "said"}), "said"),
    "Kyverno's kind": (
        thing("kyverno.io/v1", "ClusterPolicy", metadata=HELM, status={"namespace": "k"}),
        None,
    ),
    "no sign": (thing(*POLICY, spec={}), None),
    "an operand": (thing("apps/v1", "DaemonSet", metadata={"namespace": "run", **OWNED}), "run"),
    "Kyverno's operand": (thing("apps/v1", "DaemonSet", metadata={"namespace": "run", **KYVERNO}), None),
    "Deployment": (thing("apps/v1", "Deployment", "gpu-operator", metadata={"namespace": "gpus"}), "gpus"),
    "Deployment by label": (
        thing("apps/v1", "Deployment", "release-7", metadata={"namespace": "gpus", "labels": COMPONENT}),
        "gpus",
    ),
    "another Deployment": (thing("apps/v1", "Deployment", "web", metadata={"namespace": "gpus"}), None),
    "Pod": (thing("v1", "Pod", metadata={"namespace": "gpus", "labels": COMPONENT}), "gpus"),
    "OLM's label": (thing("v1", "Anything", metadata={"labels": {OLM: ""}}), "nvidia-gpu-operator"),
    "CSV": (thing(*CSV, metadata={"namespace": "nvidia-gpu-operator"}), "nvidia-gpu-operator"),
    "a copy of a CSV": (thing(*CSV, metadata={"namespace": "web", "labels": {"olm.copiedFrom": "n"}}), None),
    "Subscription": (
        thing(
            "operators.coreos.com/v1alpha1",
            "Subscription",
            "gpus",
            metadata={"namespace": "olm"},
            spec={"name": "gpu-operator-certified"},
        ),
        "olm",
    ),
    "another Subscription": (
        thing(
            "operators.coreos.com/v1alpha1",
            "Subscription",
            "nfd",
            metadata={"namespace": "openshift-nfd"},
            spec={"name": "nfd"},
        ),
        None,
    ),
    "Knative's Subscription": (
        thing(
            "messaging.knative.dev/v1",
            "Subscription",
            metadata={"namespace": "n"},
            spec={"name": "gpu-operator"},
        ),
        None,
    ),
    "ours": (
        thing(
            "v1",
            "ConfigMap",
            "gpupool-mig-0123456789",
            metadata={"namespace": "ours", "labels": {"app.kubernetes.io/managed-by": "gpupool"}},
        ),
        "ours",
    ),
}


@pytest.mark.parametrize("sign", SIGNS)
def test_each_sign(sign: str) -> None:
    body, namespace = SIGNS[sign]
    found = operator_place([thing("v1", "Node"), body])
    assert (found.namespace if found else None) == namespace


def test_what_runs_goes_before_what_is_to_install_it() -> None:
    rows = [SIGNS[name][0] for name in ("Subscription", "OLM's label", "Helm", "status", "an operand")]
    names = []
    while rows:
        found = operator_place(rows)
        assert found is not None
        names.append(found.namespace)
        rows.pop()
    assert names == ["run", "said", "helm", "nvidia-gpu-operator", "olm"]
