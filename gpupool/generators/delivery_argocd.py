"""Files for Argo CD: Applications, and the annotations by which it orders and keeps objects.

One Application for the environment's objects, one for those that can't be changed, one for each chart, and
one that delivers these and their projects (an app of apps): it is applied once with `kubectl`, and everything
else follows the repository. No ApplicationSet: it would make all environments out of one template, while here
each folder has what its environment needs; and an ApplicationSet deletes what it no longer generates. Field
names: Argo CD 3.4, docs/operator-manual/application.yaml, docs/user-guide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpupool.environment.plan.delivery import Delivery
from gpupool.environment.plan.model import SYSTEM_NAMESPACE, Plan
from gpupool.generators import deletion_protection
from gpupool.generators.argocd_names import (
    IN_CLUSTER,
    WAVE,
    application_name,
    chart_project_name,
    chart_repository,
    cluster,
    named,
    project_name,
    root_name,
    root_project_name,
)
from gpupool.generators.argocd_projects import projects, root_project
from gpupool.generators.delivery_halt import Halt, HaltCause, merge_patch
from gpupool.generators.layout import DELIVERY, INDEX, manifest_path, release_path
from gpupool.generators.manifest import Bundle, HelmRelease, Manifest, Part

_FOLDER = f"{DELIVERY}/argocd"
START = "-f"
FOLDER = f"{_FOLDER}/start"
_OPTIONS = "argocd.argoproj.io/sync-options"
_KEEP = "Prune=false,Delete=false"
_ON_REMOVAL: Mapping[str, str] = {"confirm": "Prune=false,Delete=confirm", "keep": _KEEP, "delete": ""}
"""Prune: the file is gone. Delete: the Application is. Not Prune=confirm: a sync that waits for somebody to
confirm holds up every later commit, and heals nothing meanwhile. What waits for its deletion `gpupool assert`
lists, with the command."""

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
_RETRY = {"limit": 6, "backoff": {"duration": "10s", "factor": 2, "maxDuration": "3m"}}
"""About 8 minutes: charts wait for namespaces, pools for the charts' kinds. No longer, because a commit that
fails is tried again to the last before the commit that reverts it gets its turn."""

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


def notes(manifest: Manifest, delivery: Delivery) -> Mapping[str, str]:
    """Annotations that control when Argo CD applies an object and what it must not do to it."""
    options = ""
    if manifest.patch:
        options = _KEEP
    elif deletion_protection.holds_work(manifest):
        options = _ON_REMOVAL[delivery.on_removal]
    elif manifest.recreated:
        options = _RECREATE
    return {WAVE: str(manifest.wave.number)} | ({_OPTIONS: options} if options else {})


def delivering(bundle: Bundle) -> Iterable[Mapping[str, Any]]:
    """The Applications, where Argo CD runs in the cluster that it delivers to."""
    if cluster(bundle) != {"server": IN_CLUSTER}:
        return ()
    return (body for body in wrappers(bundle).values() if body["kind"] == "Application")


def halt(live: Mapping[str, Any], delivery: Delivery) -> Halt | None:
    """A sync that fails or is tried again, a comparison that fails, automation that is off (Argo CD
    documentation, operator manual: application.yaml, automated sync policy)."""
    status = live.get("status") or {}
    automated = (live["spec"].get("syncPolicy") or {}).get("automated")
    if delivery.given.argocd.automated and (automated is None or automated.get("enabled") is False):
        on = {"syncPolicy": {"automated": {"enabled": None, "prune": True, "selfHeal": True}}}
        return Halt(HaltCause.suspended, command=merge_patch(live, {"spec": on}))
    state = status.get("operationState") or {}
    # Once there is no operation any more, its last state may still say that it runs.
    if live.get("operation") and state.get("phase") == "Running" and state.get("retryCount"):
        return Halt(HaltCause.retrying, state.get("message", ""), merge_patch(live, {"operation": None}))
    for condition in status.get("conditions") or ():
        if condition["type"].endswith("Error"):
            return Halt(HaltCause.failing, condition.get("message", ""))
    synced = (status.get("sync") or {}).get("status") == "Synced"
    if state.get("phase") in ("Failed", "Error") and not synced:
        return Halt(HaltCause.failing, state.get("message", ""))
    return None


def keeps(annotations: Mapping[str, str]) -> bool:
    """Whether Argo CD does not prune an object with these."""
    return "Prune=false" in annotations.get(_OPTIONS, "").split(",")


def wrappers(bundle: Bundle) -> dict[str, Mapping[str, Any]]:
    """Relative path -> AppProject or Application."""
    objects = [*projects(bundle), _application(bundle)]
    if replaced := _replaced(bundle):
        objects.append(_recreating_application(bundle, replaced))
    objects += [_chart_application(bundle, release) for release in bundle.releases]
    files = {f"{_FOLDER}/{body['kind'].lower()}-{body['metadata']['name']}.yaml": body for body in objects}
    # kubectl applies a folder's files by name, and an Application is refused before its project is there.
    return {
        **files,
        f"{FOLDER}/1-project.yaml": root_project(bundle),
        f"{FOLDER}/2-application.yaml": _root_application(bundle),
    }


def _root_application(bundle: Bundle) -> dict[str, Any]:
    """The one that is applied by hand: it delivers the others and their projects from the repository."""
    delivery = bundle.delivery
    spec = {
        "project": root_project_name(bundle),
        "source": {
            "repoURL": delivery.repo,
            "targetRevision": delivery.revision,
            "path": _FOLDER if delivery.path == "." else f"{delivery.path}/{_FOLDER}",
        },
        "destination": {"server": IN_CLUSTER, "namespace": delivery.given.argocd.namespace},
        "syncPolicy": {**_sync_policy(bundle), "syncOptions": ["ServerSideApply=true"]},
    }
    return _with_diff(named(bundle, "Application", root_name(bundle), 0), spec)


def resync(plan: Plan, parts: Iterable[Part]) -> str:
    """Ask Argo CD to sync, as its own command line does (Argo CD documentation, operator manual: an
    Application's `operation`). Only the Applications that deliver these parts put them back."""
    namespace = plan.delivery.given.argocd.namespace
    patch = '{"operation": {"sync": {"prune": true}}}'
    chosen = {application_name(plan.environment, part) for part in parts}
    names = " ".join(sorted(chosen or {application_name(plan.environment)}))
    return f"kubectl -n {namespace} patch application {names} --type=merge -p '{patch}'"


def _application(bundle: Bundle) -> dict[str, Any]:
    delivery = bundle.delivery
    # Files that are not objects, or Argo CD's own. By name: a tenant's namespace may be called `delivery`.
    left_out = [INDEX, *(release_path(release) for release in bundle.releases), f"{_FOLDER}/*"]
    left_out += _recreated(_replaced(bundle))
    source = _folder(delivery, exclude=f"{{{','.join(left_out)}}}")
    kinds = {m.kind for m in bundle.manifests}
    ignored = [
        {"group": group, "kind": kind, "jsonPointers": [_annotation(name) for name in names]}
        for group, kind, names in _CONTROLLERS_OWN
        if kind in kinds
    ]
    spec: dict[str, Any] = {
        "project": project_name(bundle),
        "source": source,
        "destination": _destination(bundle),
        "syncPolicy": _sync_policy(bundle),
        **({"ignoreDifferences": ignored} if ignored else {}),
    }
    return _with_diff(named(bundle, "Application", application_name(bundle.environment), 0), spec)


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
    application = named(bundle, "Application", name, 0)
    application["metadata"]["annotations"][_SERVER_SIDE_DIFF] = "ServerSideDiff=false"
    spec = {
        "project": project_name(bundle),
        "source": _folder(bundle.delivery, include=include),
        "destination": _destination(bundle),
        "syncPolicy": {**_sync_policy(bundle), "syncOptions": list(_RECREATING_OPTIONS)},
    }
    return {**application, "spec": spec}


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
        "repoURL": chart_repository(release),
        "chart": release.chart,
        "targetRevision": release.version,
        "helm": {"releaseName": release.name, "valuesObject": dict(release.values)},
    }
    spec = {
        "project": chart_project_name(bundle),
        "source": source,
        "destination": {**cluster(bundle), "namespace": release.namespace},
        "syncPolicy": _sync_policy(bundle),
    }
    name = application_name(bundle.environment, release)
    return _with_diff(named(bundle, "Application", name, 0), spec)


def _with_diff(application: dict[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Without the finalizer by which deleting an Application deletes everything that it has applied."""
    compare = {_SERVER_SIDE_DIFF: "ServerSideDiff=true"}
    metadata = {
        **application["metadata"],
        "annotations": {**application["metadata"]["annotations"], **compare},
    }
    return {**application, "metadata": metadata, "spec": dict(spec)}


def _sync_policy(bundle: Bundle) -> dict[str, Any]:
    automated = (
        {"automated": {"prune": True, "selfHeal": True}} if bundle.delivery.given.argocd.automated else {}
    )
    return {**automated, "syncOptions": list(_SYNC_OPTIONS), "retry": _RETRY}


def _destination(bundle: Bundle) -> dict[str, str]:
    """Every object names its namespace; this one is for Argo CD's check of what the project permits."""
    return {**cluster(bundle), "namespace": SYSTEM_NAMESPACE}


def _annotation(name: str) -> str:
    """JSON pointer of an annotation (RFC 6901)."""
    return "/metadata/annotations/" + name.replace("~", "~0").replace("/", "~1")
