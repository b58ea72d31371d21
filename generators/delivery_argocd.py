"""Files for Argo CD: AppProjects, Applications, and the annotations by which it orders and keeps objects.

One Application for the environment's objects, one for those that can't be changed, one for each chart,
applied once with `kubectl` or listed by an app of apps. No ApplicationSet: it would make all environments out
of one template, while here each folder has what its environment needs; and an ApplicationSet deletes what it
no longer generates. Field names: Argo CD 3.4, docs/operator-manual/application.yaml and project.yaml,
docs/user-guide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpupool.generators import deletion_protection
from gpupool.generators.layout import DELIVERY, INDEX, manifest_path, release_path
from gpupool.generators.manifest import Bundle, HelmRelease, Manifest, Part
from gpupool.plan.delivery import Delivery
from gpupool.plan.model import ENVIRONMENT_LABEL, MANAGED_BY, SYSTEM_NAMESPACE, Plan

START = "-f"
FOLDER = f"{DELIVERY}/argocd"
_API = "argoproj.io/v1alpha1"
_WAVE = "argocd.argoproj.io/sync-wave"
_OPTIONS = "argocd.argoproj.io/sync-options"
_IN_CLUSTER = "https://kubernetes.default.svc"
"""Argo CD's address of the cluster that it runs in itself."""

_KEEP = "Prune=false,Delete=false"
_ON_REMOVAL: Mapping[str, str] = {"confirm": "Prune=confirm,Delete=confirm", "keep": _KEEP, "delete": ""}
"""Prune: the file is gone. Delete: the Application is. Confirmation: Argo CD 2.14 or newer."""

_RECREATE = "Force=true,Replace=true"
"""Deleted and recreated; Replace comes before ServerSideApply (docs/user-guide/sync-options.md)."""

_SYNC_OPTIONS = [
    "ServerSideApply=true",  # owns fields, not objects; and CRDs are too large for an annotation
    "RespectIgnoreDifferences=true",
    # On an empty cluster the kinds of Karpenter and the operator come with their charts, meanwhile. Heeded
    # for a whole Application since Argo CD 3.1 (pull request 22679).
    "SkipDryRunOnMissingResource=true",
    "PruneLast=true",  # an old configuration goes when its readers have been moved to the new one
]
_RECREATING_OPTIONS = ["ApplyOutOfSyncOnly=true", "PruneLast=true"]
"""Without the first, every sync would delete and recreate what has not changed."""
_SERVER_SIDE_DIFF = "argocd.argoproj.io/compare-options"
_RETRY = {"limit": 30, "backoff": {"duration": "10s", "factor": 2, "maxDuration": "3m"}}
"""About an hour: charts wait for namespaces, pools for the charts' kinds."""

_CONTROLLERS_OWN = (
    ("karpenter.sh", "NodePool", ("karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version")),
    (
        "karpenter.k8s.aws",
        "EC2NodeClass",
        ("karpenter.k8s.aws/ec2nodeclass-hash", "karpenter.k8s.aws/ec2nodeclass-hash-version"),
    ),
)
"""Group, kind and the annotations that Karpenter 1.14 writes there. Argo CD leaves status out by itself, and
what the server defaults is no difference under ServerSideDiff."""

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


def notes(manifest: Manifest, delivery: Delivery) -> Mapping[str, str]:
    """Annotations that control when Argo CD applies an object and what it must not do to it."""
    options = ""
    if manifest.patch:
        options = _KEEP
    elif deletion_protection.holds_work(manifest):
        options = _ON_REMOVAL[delivery.on_removal]
    elif manifest.recreated:
        options = _RECREATE
    return {_WAVE: str(manifest.wave.number)} | ({_OPTIONS: options} if options else {})


def application_name(environment: str, part: Part | None = None) -> str:
    """The Application that delivers an object or a chart; without one, that of the environment itself."""
    own = f"gpupool-{environment}"
    if isinstance(part, HelmRelease):
        return f"{own}-{part.name}"
    apart = isinstance(part, Manifest) and part.recreated
    return f"{own}-priorities" if apart else own


def wrappers(bundle: Bundle) -> dict[str, Mapping[str, Any]]:
    """Relative path -> AppProject or Application."""
    objects = [_project(bundle), _application(bundle)]
    if replaced := _replaced(bundle):
        objects.append(_recreating_application(bundle, replaced))
    if bundle.releases:
        objects.append(_chart_project(bundle))
        objects += [_chart_application(bundle, release) for release in bundle.releases]
    return {f"{FOLDER}/{made['kind'].lower()}-{made['metadata']['name']}.yaml": made for made in objects}


def resync(plan: Plan, parts: Iterable[Part]) -> str:
    """Ask Argo CD to sync, as its own command line does (Argo CD documentation, operator manual: an
    Application's `operation`). Only the Applications that deliver these parts put them back."""
    namespace = plan.delivery.given.argocd.namespace
    patch = '{"operation": {"sync": {"prune": true}}}'
    chosen = {application_name(plan.environment, part) for part in parts}
    names = " ".join(sorted(chosen or {application_name(plan.environment)}))
    return f"kubectl -n {namespace} patch application {names} --type=merge -p '{patch}'"


def _named(bundle: Bundle, kind: str, name: str, wave: int) -> dict[str, Any]:
    """`wave` orders them under an app of apps: projects first, and Applications at once, because the charts
    wait for the environment's namespaces and the environment's pools for the charts' kinds."""
    metadata = {
        "name": name,
        "namespace": bundle.delivery.given.argocd.namespace,
        "labels": {MANAGED_BY: "gpupool", ENVIRONMENT_LABEL: bundle.environment},
        "annotations": {_WAVE: str(wave)},
    }
    return {"apiVersion": _API, "kind": kind, "metadata": metadata}


def _project(bundle: Bundle) -> dict[str, Any]:
    """What the environment's objects may be: the kinds that are rendered, where they are rendered to."""
    owned = bundle.manifests
    spec = {
        "description": f"GPU pools of {bundle.environment}",
        "sourceRepos": [bundle.delivery.repo],
        "destinations": _destinations(bundle, {m.namespace or SYSTEM_NAMESPACE for m in owned}),
        "clusterResourceWhitelist": _kinds(_group_kind(m) for m in owned if m.namespace is None),
        "namespaceResourceWhitelist": _kinds(_group_kind(m) for m in owned if m.namespace is not None),
    }
    return {**_named(bundle, "AppProject", _project_name(bundle), -10), "spec": spec}


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
        "sourceRepos": sorted({_chart_repository(release) for release in bundle.releases}),
        "destinations": _destinations(bundle, spaces),
        "clusterResourceWhitelist": _kinds(kinds),
    }
    return {**_named(bundle, "AppProject", _chart_project_name(bundle), -10), "spec": spec}


def _application(bundle: Bundle) -> dict[str, Any]:
    delivery = bundle.delivery
    # Files that are not objects, or Argo CD's own. By name: a tenant's namespace may be called `delivery`.
    left_out = [INDEX, *(release_path(release) for release in bundle.releases), f"{FOLDER}/*"]
    left_out += _recreated(_replaced(bundle))
    source = _folder(delivery, exclude=f"{{{','.join(left_out)}}}")
    kinds = {m.kind for m in bundle.manifests}
    ignored = [
        {"group": group, "kind": kind, "jsonPointers": [_annotation(name) for name in names]}
        for group, kind, names in _CONTROLLERS_OWN
        if kind in kinds
    ]
    spec: dict[str, Any] = {
        "project": _project_name(bundle),
        "source": source,
        "destination": _destination(bundle),
        "syncPolicy": _sync_policy(bundle),
        **({"ignoreDifferences": ignored} if ignored else {}),
    }
    return _with_diff(_named(bundle, "Application", application_name(bundle.environment), 0), spec)


def _recreated(replaced: list[Manifest]) -> list[str]:
    """Globs of the files whose objects are deleted and recreated when an immutable field changes."""
    kinds = {manifest_path(m).removesuffix(f"-{m.name}.yaml") for m in replaced}
    return [f"{kind}-*" for kind in sorted(kinds)]


def _replaced(bundle: Bundle) -> list[Manifest]:
    return [m for m in bundle.manifests if m.recreated]


def _recreating_application(bundle: Bundle, replaced: list[Manifest]) -> dict[str, Any]:
    """Apart, because the server's own comparison fails on a change that it refuses, and an Application that
    can't be compared is not synced at all (argoproj/argo-cd issue 29348)."""
    globs = _recreated(replaced)
    include = globs[0] if len(globs) == 1 else f"{{{','.join(globs)}}}"
    name = application_name(bundle.environment, replaced[0])
    named = _named(bundle, "Application", name, 0)
    named["metadata"]["annotations"][_SERVER_SIDE_DIFF] = "ServerSideDiff=false"
    spec = {
        "project": _project_name(bundle),
        "source": _folder(bundle.delivery, include=include),
        "destination": _destination(bundle),
        "syncPolicy": {**_sync_policy(bundle), "syncOptions": list(_RECREATING_OPTIONS)},
    }
    return {**named, "spec": spec}


def _folder(delivery: Delivery, **files: str) -> dict[str, Any]:
    """The rendering, but for or only the files that a glob names."""
    return {
        "repoURL": delivery.repo,
        "targetRevision": delivery.revision,
        "path": delivery.path,
        "directory": {"recurse": True, **files},
    }


def _chart_application(bundle: Bundle, release: HelmRelease) -> dict[str, Any]:
    source = {
        "repoURL": _chart_repository(release),
        "chart": release.chart,
        "targetRevision": release.version,
        "helm": {"releaseName": release.name, "valuesObject": dict(release.values)},
    }
    spec = {
        "project": _chart_project_name(bundle),
        "source": source,
        "destination": {**_cluster(bundle), "namespace": release.namespace},
        "syncPolicy": _sync_policy(bundle),
    }
    name = application_name(bundle.environment, release)
    return _with_diff(_named(bundle, "Application", name, 0), spec)


def _with_diff(named: dict[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Without the finalizer by which deleting an Application deletes everything that it has applied."""
    compare = {_SERVER_SIDE_DIFF: "ServerSideDiff=true"}
    metadata = {**named["metadata"], "annotations": {**named["metadata"]["annotations"], **compare}}
    return {**named, "metadata": metadata, "spec": dict(spec)}


def _sync_policy(bundle: Bundle) -> dict[str, Any]:
    automated = (
        {"automated": {"prune": True, "selfHeal": True}} if bundle.delivery.given.argocd.automated else {}
    )
    return {**automated, "syncOptions": list(_SYNC_OPTIONS), "retry": _RETRY}


def _cluster(bundle: Bundle) -> dict[str, str]:
    to = bundle.delivery.given.argocd.destination
    return {"name": to.name} if to.name else {"server": to.server or _IN_CLUSTER}


def _destination(bundle: Bundle) -> dict[str, str]:
    """Every object names its namespace; this one is for Argo CD's check of what the project permits."""
    return {**_cluster(bundle), "namespace": SYSTEM_NAMESPACE}


def _destinations(bundle: Bundle, namespaces: Iterable[str]) -> list[dict[str, str]]:
    return [{**_cluster(bundle), "namespace": namespace} for namespace in sorted(namespaces)]


def _project_name(bundle: Bundle) -> str:
    return bundle.delivery.given.argocd.project or application_name(bundle.environment)


def _chart_project_name(bundle: Bundle) -> str:
    return f"{_project_name(bundle)}-releases"


def _chart_repository(release: HelmRelease) -> str:
    """Argo CD recognizes a registry by the missing scheme (docs/user-guide/helm.md)."""
    return release.repository.removeprefix("oci://")


def _group_kind(manifest: Manifest) -> tuple[str, str]:
    group, slash, _ = manifest.api_version.partition("/")
    return (group if slash else "", manifest.kind)


def _kinds(kinds: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"group": group, "kind": kind} for group, kind in sorted(set(kinds))]


def _annotation(name: str) -> str:
    """JSON pointer of an annotation (RFC 6901)."""
    return "/metadata/annotations/" + name.replace("~", "~0").replace("/", "~1")
