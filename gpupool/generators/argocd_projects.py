"""What Argo CD may do for an environment: its AppProjects.

The environment's own permits every kind of the table of kinds, so that a file may begin to use one, and the
namespaces that are rendered. A commit with a new tenant brings the project that permits its namespace: the
Application that delivers the others applies it, and the sync that was refused meanwhile is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.generators.argocd_names import (
    API,
    IN_CLUSTER,
    chart_project_name,
    chart_repository,
    cluster,
    named,
    project_name,
    root_project_name,
)
from gpupool.generators.kinds import KINDS
from gpupool.generators.manifest import Bundle

_CHART_NAMESPACES: Mapping[str, tuple[str, ...]] = {"karpenter": ("kube-system",)}
"""Namespaces that a chart writes to beside its release's (charts/karpenter/templates/role.yaml, v1.14.1)."""
_CHART_KINDS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "karpenter": (),
    # Its ClusterPolicy and NVIDIADriver, what binds its own account, and the rules of its subchart for node
    # features (NVIDIA/gpu-operator at 738ff40f, deployments/gpu-operator/templates).
    "gpu-operator": (
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        ("nfd.k8s-sigs.io", "*"),
        ("nvidia.com", "*"),
    ),
}
"""Cluster-scoped kinds that a chart makes beside those that every operator's chart does."""
_EVERY_CHART = (
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
)


def projects(bundle: Bundle) -> list[dict[str, Any]]:
    """Those of the environment's objects and of its charts."""
    charts = [_chart_project(bundle)] if bundle.releases else []
    return [_project(bundle), *charts]


def root_project(bundle: Bundle) -> dict[str, Any]:
    """What the Application that delivers the others may make: those, and these projects, nothing else."""
    spec = {
        "description": f"Delivery of the GPU pools of {bundle.environment}",
        "sourceRepos": [bundle.delivery.repo],
        "destinations": [{"server": IN_CLUSTER, "namespace": bundle.delivery.given.argocd.namespace}],
        "clusterResourceWhitelist": [],
        "namespaceResourceWhitelist": _kinds(
            (API.partition("/")[0], kind) for kind in ("Application", "AppProject")
        ),
    }
    return {**named(bundle, "AppProject", root_project_name(bundle), -10), "spec": spec}


def _project(bundle: Bundle) -> dict[str, Any]:
    """What the environment's objects may be: the kinds that a file can need, where they are rendered to."""
    cluster_wide = [(kind.group, kind.name) for kind in KINDS if kind.cluster_wide]
    namespaced = [(kind.group, kind.name) for kind in KINDS if not kind.cluster_wide]
    # What is rendered may be of a kind that the table does not have.
    cluster_wide += [(m.group, m.kind) for m in bundle.manifests if m.namespace is None]
    namespaced += [(m.group, m.kind) for m in bundle.manifests if m.namespace is not None]
    spec = {
        "description": f"GPU pools of {bundle.environment}",
        "sourceRepos": [bundle.delivery.repo],
        "destinations": _destinations(bundle, {m.namespace or SYSTEM_NAMESPACE for m in bundle.manifests}),
        "clusterResourceWhitelist": _kinds(cluster_wide),
        "namespaceResourceWhitelist": _kinds(namespaced),
    }
    return {**named(bundle, "AppProject", project_name(bundle), -10), "spec": spec}


def _chart_project(bundle: Bundle) -> dict[str, Any]:
    """What the charts may make; apart, because the environment itself needs no CRD and no ClusterRoleBinding
    of theirs. Namespaced kinds are the charts' own concern, in their namespaces."""
    spaces = {release.namespace for release in bundle.releases}
    kinds = set(_EVERY_CHART)
    for release in bundle.releases:
        spaces |= set(_CHART_NAMESPACES.get(release.chart, ()))
        kinds |= set(_CHART_KINDS.get(release.chart, ()))
    spec = {
        "description": f"Charts that the GPU pools of {bundle.environment} need",
        "sourceRepos": sorted({chart_repository(release) for release in bundle.releases}),
        "destinations": _destinations(bundle, spaces),
        "clusterResourceWhitelist": _kinds(kinds),
    }
    return {**named(bundle, "AppProject", chart_project_name(bundle), -10), "spec": spec}


def _destinations(bundle: Bundle, namespaces: Iterable[str]) -> list[dict[str, str]]:
    return [{**cluster(bundle), "namespace": namespace} for namespace in sorted(namespaces)]


def _kinds(kinds: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"group": group, "kind": kind} for group, kind in sorted(set(kinds))]
