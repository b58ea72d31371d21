"""Files for Flux: the source, a Kustomization for each step, HelmReleases, and annotations that keep objects.

A step is as many waves as Flux brings in order by itself: within a Kustomization it applies namespaces first
and waits for them, then the rest by kind (pkg/ssa v0.75, ApplyAllStaged and sort.go). Each step costs up to
30 s of waiting, because that is how often Flux looks whether the one before it is ready.

A Kustomization applies one folder, so each step has a folder whose kustomization.yaml lists files elsewhere
in the rendering; Flux builds without kustomize's load restriction, within the repository (pkg/kustomize
v1.35.6, SecureBuild). Field names: kustomize-controller 1.9, helm-controller 1.6, source-controller 1.9
(Flux 2.9); the newest field used came with Flux 2.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.environment.plan.delivery import Delivery
from gpupool.environment.plan.model import ENVIRONMENT_LABEL, MANAGED_BY, Plan
from gpupool.generators import deletion_protection
from gpupool.generators.delivery_halt import Halt, HaltCause, merge_patch
from gpupool.generators.kinds import (
    ACCESS,
    BOUNDS,
    ENFORCEMENT,
    KINDS,
    MACHINES,
    NAMESPACES,
    OPERATORS,
    PARAMETERS,
    POLICIES,
    POOLS,
    WORKLOADS,
    Kind,
    Wave,
)
from gpupool.generators.layout import DELIVERY, manifest_path
from gpupool.generators.manifest import Bundle, HelmRelease, Manifest, Part

START = "-k"
FOLDER = f"{DELIVERY}/flux"
_STEPS_FOLDER = f"{DELIVERY}/steps"
_SOURCE_API = "source.toolkit.fluxcd.io/v1"
_PRUNE = "kustomize.toolkit.fluxcd.io/prune"
_APPLY = "kustomize.toolkit.fluxcd.io/ssa"
_RECREATE = "kustomize.toolkit.fluxcd.io/force"


@dataclass(frozen=True, slots=True)
class _Step:
    """What one Kustomization applies. Nothing of a later step is applied before it is ready."""

    name: str
    waves: tuple[Wave, ...]
    timeout: str = "5m"
    """How long it may take to be ready."""


_OPERATORS = _Step("operators", (BOUNDS, OPERATORS), "20m")
"""Bounds of tenants come after the parameters that judge them; charts bring the kinds of what follows."""
_STEPS = (
    _Step("foundation", (NAMESPACES, ACCESS, PARAMETERS, POLICIES, ENFORCEMENT)),
    _OPERATORS,
    # A NodePool whose overlay is not accepted yet would buy machines by their physical GPUs.
    _Step("machines", (MACHINES,), "10m"),
    _Step("pools", (POOLS, WORKLOADS), "10m"),
)
_CHART_TIMEOUT = "15m"
_CHART_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def _health(kind: Kind) -> Mapping[str, str]:
    """Once its controller accepts it, it is current; a refusal that lasts is a failure."""
    stated = f"status.conditions.exists(c, c.type == '{kind.accepted}' && c.status == '%s')"
    refused = {"failed": stated % "False"} if kind.refusal_lasts else {}
    return {**refused, "current": stated % "True"}


_HEALTH: Mapping[str, Mapping[str, str]] = {
    **{kind.name: _health(kind) for kind in KINDS if kind.accepted},
    # Accepted is enough. Ready it is only while every operand runs on every node, which isn't so whenever a
    # node starts; steps behind it must not wait for that.
    "ClusterPolicy": {
        "failed": "status.state == 'ignored'",
        "current": "status.state in ['ready', 'notReady']",
    },
}
"""Kind -> CEL expressions over the object. An expression over what is not there yet means: wait. States of a
ClusterPolicy: GPU Operator v26.7.0, api/nvidia/v1; conditions: Karpenter 1.14."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_VERSION = re.compile(r"v?[0-9]+\.[0-9]+(\.[0-9]+)?([-+][0-9A-Za-z.+-]+)?")


def notes(manifest: Manifest, delivery: Delivery) -> Mapping[str, str]:
    """Annotations that tell Flux what not to do to an object."""
    if manifest.patch:
        # Merge: labels that somebody has set with kubectl stay.
        return {_PRUNE: "disabled", _APPLY: "Merge"}
    if manifest.recreated:
        # Only where the server refuses the change as invalid (kustomize-controller, spec v1).
        return {_RECREATE: "enabled"}
    kept = deletion_protection.holds_work(manifest) and delivery.on_removal != "delete"
    return {_PRUNE: "disabled"} if kept else {}


def delivering(bundle: Bundle) -> Iterator[Mapping[str, Any]]:
    """Sources, Kustomizations and HelmReleases: all that is not for kustomize to read."""
    return (body for body in wrappers(bundle).values() if "metadata" in body)


def halt(live: Mapping[str, Any], _: Delivery) -> Halt | None:
    """Suspended, or not ready for a reason of its own (Flux documentation, Kustomization: status)."""
    if live["spec"].get("suspend"):
        return Halt(HaltCause.suspended, command=merge_patch(live, {"spec": {"suspend": False}}))
    for condition in (live.get("status") or {}).get("conditions") or ():
        waits = condition.get("reason") == "DependencyNotReady"
        if condition["type"] == "Ready" and condition["status"] == "False" and not waits:
            return Halt(HaltCause.failing, condition.get("message", ""))
    return None


def keeps(annotations: Mapping[str, str]) -> bool:
    """Whether Flux does not prune an object with these."""
    return annotations.get(_PRUNE) == "disabled"


def wrappers(bundle: Bundle) -> dict[str, Mapping[str, Any]]:
    """Relative path -> source, Kustomization of Flux or of kustomize, HelmRelease or its source."""
    files: dict[str, Mapping[str, Any]] = {}
    steps = _steps(bundle)
    charts = _file_names(part for release in bundle.releases for part in _chart(bundle, release))
    for step, manifests in steps.items():
        folder = f"{_STEPS_FOLDER}/{step.name}"
        inside = charts if step is _OPERATORS else {}
        paths = [f"../../../{manifest_path(manifest)}" for manifest in manifests]
        files[f"{folder}/kustomization.yaml"] = _folder([*paths, *inside])
        files |= {f"{folder}/{name}": body for name, body in inside.items()}
    started = _file_names([_source(bundle), *_kustomizations(bundle, steps)])
    files[f"{FOLDER}/kustomization.yaml"] = _folder(started)
    return files | {f"{FOLDER}/{name}": body for name, body in started.items()}


def _steps(bundle: Bundle) -> dict[_Step, list[Manifest]]:
    """Those that apply something, each with its manifests."""
    by_wave = bundle.by_wave()
    steps = {step: [manifest for wave in step.waves for manifest in by_wave[wave]] for step in _STEPS}
    return {
        step: manifests
        for step, manifests in steps.items()
        if manifests or (step is _OPERATORS and bundle.releases)
    }


def _folder(resources: Iterator[str] | list[str] | Mapping[str, Any]) -> dict[str, Any]:
    """What kustomize reads: the files that belong together."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(resources),
    }


def _file_names(objects: Any) -> dict[str, Mapping[str, Any]]:
    return {f"{made['kind'].lower()}-{made['metadata']['name']}.yaml": made for made in objects}


def object_name(environment: str, part: str = "") -> str:
    """What an object of Flux's is called: its source, or the part of the environment that it delivers, which
    is a step's or a chart's name."""
    return "-".join(filter(None, ("gpupool", environment, part)))


def resync(plan: Plan, parts: Iterable[Part]) -> str:
    """Ask Flux to reconcile (Flux documentation, Kustomization: triggering a reconcile). All steps, because
    what is in one may be what another waits for. A chart's release is not checked again while it is the
    same, so it is installed again (HelmRelease: forcing a release), after the step that has it."""
    namespace = plan.delivery.given.flux.namespace
    chosen = f"kubectl -n {namespace} annotate kustomization -l {ENVIRONMENT_LABEL}={plan.environment}"
    steps = f'{chosen} reconcile.fluxcd.io/requestedAt="$(date +%s)" --overwrite'
    charts = sorted({part.name for part in parts if isinstance(part, HelmRelease)})
    if not charts:
        return steps
    names = " ".join(object_name(plan.environment, name) for name in charts)
    moments = " ".join(f'reconcile.fluxcd.io/{what}="$at"' for what in ("requestedAt", "forceAt"))
    forced = f"kubectl -n {namespace} annotate helmrelease {names} {moments} --overwrite"
    return f'{steps} && at="$(date +%s)" && {forced}'


def _named(bundle: Bundle, api_version: str, kind: str, part: str = "") -> dict[str, Any]:
    metadata = {
        "name": object_name(bundle.environment, part),
        "namespace": bundle.delivery.given.flux.namespace,
        "labels": {MANAGED_BY: "gpupool", ENVIRONMENT_LABEL: bundle.environment},
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _source(bundle: Bundle) -> dict[str, Any]:
    """Where Flux reads the rendering."""
    delivery, flux = bundle.delivery, bundle.delivery.given.flux
    registry = delivery.repo.startswith("oci://")
    spec = {
        "interval": flux.interval,
        "url": delivery.repo,
        "ref": _revision(delivery.revision, registry),
        **({"secretRef": {"name": flux.secret}} if flux.secret else {}),
    }
    kind = "OCIRepository" if registry else "GitRepository"
    return {**_named(bundle, _SOURCE_API, kind), "spec": spec}


def _revision(revision: str, registry: bool) -> dict[str, str]:
    if registry:
        return {"digest" if revision.startswith("sha256:") else "tag": revision}
    if _COMMIT.fullmatch(revision):
        return {"commit": revision}
    if revision.startswith("refs/"):
        return {"name": revision}
    return {"tag" if _VERSION.fullmatch(revision) else "branch": revision}


def _kustomizations(bundle: Bundle, steps: Mapping[_Step, list[Manifest]]) -> Iterator[dict[str, Any]]:
    """One for each step, each waiting for the one before it at the same revision."""
    source, flux = _source(bundle), bundle.delivery.given.flux
    before: str | None = None
    for step, manifests in steps.items():
        kustomization = _named(bundle, "kustomize.toolkit.fluxcd.io/v1", "Kustomization", step.name)
        root = "" if bundle.delivery.path == "." else f"{bundle.delivery.path}/"
        health = _health_checks(manifests)
        spec = {
            **({"dependsOn": [{"name": before}]} if before else {}),
            "interval": flux.interval,
            "retryInterval": "1m",
            "timeout": step.timeout,
            "sourceRef": {"kind": source["kind"], "name": source["metadata"]["name"]},
            "path": f"./{root}{_STEPS_FOLDER}/{step.name}",
            "prune": True,
            # Deleting a Kustomization must not delete the pools and namespaces that it has applied.
            "deletionPolicy": "Orphan",
            "force": False,
            **_awaited(manifests),
            **({"healthCheckExprs": health} if health else {}),
            **({"serviceAccountName": flux.service_account} if flux.service_account else {}),
        }
        yield {**kustomization, "spec": spec}
        before = kustomization["metadata"]["name"]


def _awaited(manifests: list[Manifest]) -> dict[str, Any]:
    """What the step is ready with: all of it, but for workloads, which wait for machines."""
    workloads = [manifest for manifest in manifests if manifest.wave is WORKLOADS]
    if not workloads:
        return {"wait": True}
    checks = [
        {"apiVersion": m.api_version, "kind": m.kind, "name": m.name}
        for m in manifests
        if m.wave is not WORKLOADS
    ]
    return {"wait": False, **({"healthChecks": checks} if checks else {})}


def _health_checks(manifests: list[Manifest]) -> list[dict[str, str]]:
    kinds = sorted({(m.kind, m.api_version) for m in manifests if m.kind in _HEALTH})
    return [{"apiVersion": version, "kind": kind, **_HEALTH[kind]} for kind, version in kinds]


def _chart(bundle: Bundle, release: HelmRelease) -> Iterator[dict[str, Any]]:
    """The chart's source and its release. Helm knows it by the release's own name, in its namespace."""
    flux = bundle.delivery.given.flux
    if release.repository.startswith("oci://"):
        repository = _named(bundle, _SOURCE_API, "OCIRepository", release.name)
        url = f"{release.repository.rstrip('/')}/{release.chart}"
        layer = {"mediaType": _CHART_LAYER, "operation": "copy"}
        ref = {"tag": release.version}
        yield {**repository, "spec": {"interval": "1h", "url": url, "ref": ref, "layerSelector": layer}}
        name = repository["metadata"]["name"]
        chart: dict[str, Any] = {"chartRef": {"kind": "OCIRepository", "name": name}}
    else:
        repository = _named(bundle, _SOURCE_API, "HelmRepository", release.name)
        yield {**repository, "spec": {"interval": "1h", "url": release.repository}}
        reference = {"kind": "HelmRepository", "name": repository["metadata"]["name"]}
        wanted = {"chart": release.chart, "version": release.version, "sourceRef": reference}
        chart = {"chart": {"spec": wanted}}
    made = _named(bundle, "helm.toolkit.fluxcd.io/v2", "HelmRelease", release.name)
    # Removing the files must not uninstall the chart: without Karpenter and the operator its nodes are
    # unmanaged.
    metadata = {**made["metadata"], "annotations": {_PRUNE: "disabled"}}
    spec = {
        **chart,
        "releaseName": release.name,
        "targetNamespace": release.namespace,
        "storageNamespace": release.namespace,
        "interval": flux.interval,
        "timeout": _CHART_TIMEOUT,
        "install": {"crds": "CreateReplace", "remediation": {"retries": 3}},
        "upgrade": {"crds": "CreateReplace", "remediation": {"retries": 3}},
        **({"serviceAccountName": flux.service_account} if flux.service_account else {}),
        "values": dict(release.values),
    }
    yield {**made, "metadata": metadata, "spec": spec}
