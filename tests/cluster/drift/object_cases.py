"""Edits by hand that `refresh` and `up` undo: what is done, and what must be reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.cluster.drift.world import World

ADMISSION = "admissionregistration.k8s.io/v1"
RBAC = "rbac.authorization.k8s.io/v1"
POOL = "karpenter.sh/v1"
OVERLAY = "karpenter.sh/v1alpha1"


@dataclass(frozen=True)
class Case:
    """One kind of drift."""

    title: str
    inject: Callable[[World], object]
    layer: str
    kind: str
    object: str
    reason: str
    """A regular expression."""
    by: str = ""
    path: str = ""


def _gone(version: str, kind: str, name: str, namespace: str | None = None) -> Callable[[World], object]:
    def inject(world: World) -> None:
        world.api.delete(version, kind, name, namespace)
        world.kube.wait("it is gone", lambda: world.api.get(version, kind, name, namespace) is None, 30)

    return inject


def _edit(
    version: str, kind: str, name: str, body: object, namespace: str | None = None
) -> Callable[[World], object]:
    return lambda world: world.edit(version, kind, name, body, namespace)


def _plugin_config(world: World) -> None:
    found = world.config_map("gpupool-device-plugin")
    text = found["data"]["batch"] + "# tried something\n"
    world.edit("v1", "ConfigMap", found["metadata"]["name"], {"data": {"batch": text}}, "gpu-operator")


def _layouts(world: World) -> None:
    found = world.config_map("gpupool-mig")
    text = found["data"]["config.yaml"] + "# tried something\n"
    world.edit("v1", "ConfigMap", found["metadata"]["name"], {"data": {"config.yaml": text}}, "gpu-operator")


def _network(body: object, namespace: str = "team-vision") -> Callable[[World], object]:
    return _edit("networking.k8s.io/v1", "NetworkPolicy", "gpupool", body, namespace)


_ANY_NAMESPACE = {"namespaceSelector": {}}
_LOOSE = "pin-images"
_EXPRESSION = [{"op": "replace", "path": "/spec/validations/0/expression", "value": "true"}]
_SUBJECT = {"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}
_BASELINE = "pod-security.kubernetes.io/enforce"

CASES = (
    Case(
        "object missing",
        _gone("v1", "LimitRange", "gpupool", "team-vision"),
        "tenants",
        "missing",
        "LimitRange team-vision/gpupool",
        "not in the cluster",
    ),
    Case(
        "quota raised by hand",
        _edit(
            "v1",
            "ResourceQuota",
            "gpupool",
            {"spec": {"hard": {"requests.nvidia.com/gpu": "6"}}},
            "team-vision",
        ),
        "tenants",
        "changed",
        "ResourceQuota team-vision/gpupool",
        r"4 -> 6 in the cluster, set by kubectl-edit",
        "kubectl-edit",
        'spec.hard["requests.nvidia.com/gpu"]',
    ),
    Case(
        "pool's limit raised by hand",
        _edit(POOL, "NodePool", "batch", {"spec": {"limits": {"nodes": "9"}}}),
        "karpenter",
        "changed",
        "NodePool batch",
        r"spec.limits.nodes: 2 -> 9 .*Karpenter starts",
        "kubectl-edit",
        "spec.limits.nodes",
    ),
    Case(
        "overlay missing",
        _gone(OVERLAY, "NodeOverlay", "notebooks"),
        "karpenter",
        "missing",
        "NodeOverlay notebooks",
        "counts physical GPUs",
    ),
    Case(
        "overlay counts different slices",
        _edit(OVERLAY, "NodeOverlay", "models", {"spec": {"capacity": {"nvidia.com/mig-3g.40gb": "4"}}}),
        "karpenter",
        "changed",
        "NodeOverlay models",
        "counts different slices",
        "kubectl-edit",
    ),
    Case(
        "priority class missing",
        _gone("scheduling.k8s.io/v1", "PriorityClass", "training"),
        "objects",
        "missing",
        "PriorityClass training",
        "pods that name it are rejected",
    ),
    Case(
        "policy missing",
        _gone(ADMISSION, "ValidatingAdmissionPolicy", _LOOSE),
        "policies",
        "missing",
        f"ValidatingAdmissionPolicy {_LOOSE}",
        "what it forbids is admitted",
    ),
    Case(
        "policy edited",
        _edit(ADMISSION, "ValidatingAdmissionPolicy", "quotas-count-gpus", _EXPRESSION),
        "policies",
        "changed",
        "ValidatingAdmissionPolicy quotas-count-gpus",
        r"spec.validations\[0\].expression: .* -> true in the cluster, set by kubectl-edit",
        "kubectl-edit",
    ),
    Case(
        "binding missing",
        _gone(ADMISSION, "ValidatingAdmissionPolicyBinding", "one-slice-per-container"),
        "policies",
        "missing",
        "ValidatingAdmissionPolicyBinding one-slice-per-container",
        "the policy exists but is not enforced",
    ),
    Case(
        "policies' parameters edited",
        _edit("v1", "ConfigMap", "gpupool-limits", {"data": {"jobRetries": "100"}}, "gpupool-system"),
        "policies",
        "changed",
        "ConfigMap gpupool-system/gpupool-limits",
        "policies use it",
        "kubectl-edit",
    ),
    Case(
        "role widened",
        _edit(
            RBAC, "ClusterRole", "gpupool-tenant", [{"op": "add", "path": "/rules/0/verbs/-", "value": "*"}]
        ),
        "objects",
        "changed",
        "ClusterRole gpupool-tenant",
        "rules",
        "kubectl-edit",
    ),
    Case(
        "role given to somebody else",
        _edit(
            RBAC,
            "RoleBinding",
            "gpupool-launcher",
            [{"op": "add", "path": "/subjects/-", "value": _SUBJECT}],
            "team-vision",
        ),
        "tenants",
        "changed",
        "RoleBinding team-vision/gpupool-launcher",
        "mallory",
        "kubectl-edit",
    ),
    Case(
        "network policy missing",
        _gone("networking.k8s.io/v1", "NetworkPolicy", "gpupool", "team-audio"),
        "tenants",
        "missing",
        "NetworkPolicy team-audio/gpupool",
        "pods of other namespaces",
    ),
    Case(
        "network policy lets in any namespace",
        _network([{"op": "replace", "path": "/spec/ingress/0/from/0", "value": _ANY_NAMESPACE}]),
        "tenants",
        "changed",
        "NetworkPolicy team-vision/gpupool",
        r"podSelector: \{\} -> namespaceSelector: \{\} in the cluster, set by kubectl-edit",
        "kubectl-edit",
        "spec.ingress[0].from[0]",
    ),
    Case(
        "network policy lets in pods of any namespace too",
        _network([{"op": "add", "path": "/spec/ingress/0/from/0/namespaceSelector", "value": {}}]),
        "tenants",
        "changed",
        "NetworkPolicy team-vision/gpupool",
        r"\(none\) -> \{\} in the cluster, set by kubectl-edit",
        "kubectl-edit",
        "spec.ingress[0].from[0].namespaceSelector",
    ),
    Case(
        "network policy lets in one more",
        _network([{"op": "add", "path": "/spec/ingress/0/from/-", "value": _ANY_NAMESPACE}]),
        "tenants",
        "changed",
        "NetworkPolicy team-vision/gpupool",
        r"\(none\) -> \[\{namespaceSelector: \{\}\}\] in the cluster, set by kubectl-edit",
        "kubectl-edit",
        "spec.ingress[0].from",
    ),
    Case(
        "network policy covers no pod",
        _network({"spec": {"podSelector": {"matchLabels": {"no": "pod"}}}}),
        "tenants",
        "changed",
        "NetworkPolicy team-vision/gpupool",
        r"\(none\) -> no: pod in the cluster, set by kubectl-edit",
        "kubectl-edit",
        "spec.podSelector.matchLabels",
    ),
    Case(
        "network policy that denied all traffic allows all",
        _network({"spec": {"ingress": [{}]}}, "gpupool-system"),
        "objects",
        "changed",
        "NetworkPolicy gpupool-system/gpupool",
        r"\(none\) -> \[\{\}\] in the cluster, set by kubectl-edit",
        "kubectl-edit",
        "spec.ingress",
    ),
    Case(
        "priority class is everybody's",
        _edit("scheduling.k8s.io/v1", "PriorityClass", "training", {"globalDefault": True}),
        "objects",
        "changed",
        "PriorityClass training",
        "false -> true in the cluster, set by kubectl-edit",
        "kubectl-edit",
        "globalDefault",
    ),
    Case(
        "policy leaves out a namespace",
        _edit(
            ADMISSION,
            "ValidatingAdmissionPolicy",
            _LOOSE,
            {"spec": {"matchConstraints": {"namespaceSelector": {"matchLabels": {"no": "namespace"}}}}},
        ),
        "policies",
        "changed",
        f"ValidatingAdmissionPolicy {_LOOSE}",
        "no: namespace in the cluster, set by kubectl-edit",
        "kubectl-edit",
    ),
    Case(
        "policies' parameter taken out that was empty",
        _edit("v1", "ConfigMap", "gpupool-limits", {"data": {"registries": None}}, "gpupool-system"),
        "policies",
        "changed",
        "ConfigMap gpupool-system/gpupool-limits",
        r'"" -> \(none\) in the cluster: policies use it',
        path="data.registries",
    ),
    Case(
        "Pod Security level lowered",
        _edit("v1", "Namespace", "team-audio", {"metadata": {"labels": {_BASELINE: "privileged"}}}),
        "tenants",
        "changed",
        "Namespace team-audio",
        "baseline -> privileged",
        "kubectl-edit",
    ),
    Case(
        "service account missing",
        _gone("v1", "ServiceAccount", "gpupool-launcher", "gpupool-system"),
        "objects",
        "missing",
        "ServiceAccount gpupool-system/gpupool-launcher",
        "not in the cluster",
    ),
    Case(
        "device plugin's configuration edited",
        _plugin_config,
        "objects",
        "changed",
        "ConfigMap gpu-operator/gpupool-device-plugin-",
        "device plugins that start now read it",
        "kubectl-edit",
    ),
    Case(
        "MIG layouts edited",
        _layouts,
        "objects",
        "changed",
        "ConfigMap gpu-operator/gpupool-mig-",
        "nodes that are partitioned from now on",
        "kubectl-edit",
    ),
)
