"""What objects of Argo CD are called, and which cluster they are about."""

from __future__ import annotations

from typing import Any

from gpupool.environment.plan.model import ENVIRONMENT_LABEL, MANAGED_BY
from gpupool.generators.manifest import Bundle, HelmRelease, Manifest, Part

API = "argoproj.io/v1alpha1"
WAVE = "argocd.argoproj.io/sync-wave"
IN_CLUSTER = "https://kubernetes.default.svc"
"""Argo CD's address of the cluster that it runs in itself."""


def application_name(environment: str, part: Part | None = None) -> str:
    """The Application that delivers an object or a chart; without one, that of the environment itself."""
    own = f"gpupool-{environment}"
    if isinstance(part, HelmRelease):
        return f"{own}-{part.name}"
    apart = isinstance(part, Manifest) and part.recreated
    return f"{own}-priorities" if apart else own


def project_name(bundle: Bundle) -> str:
    """The AppProject of the environment's own objects."""
    return bundle.delivery.given.argocd.project or application_name(bundle.environment)


def chart_project_name(bundle: Bundle) -> str:
    """The AppProject of the charts."""
    return f"{project_name(bundle)}-releases"


def root_name(bundle: Bundle) -> str:
    """The Application that delivers the others."""
    return f"{application_name(bundle.environment)}-delivery"


def root_project_name(bundle: Bundle) -> str:
    """The AppProject of the Application that delivers the others."""
    return f"{project_name(bundle)}-delivery"


def named(bundle: Bundle, kind: str, name: str, wave: int) -> dict[str, Any]:
    """`wave` orders them under an app of apps: projects first, and Applications at once, because the charts
    wait for the environment's namespaces and the environment's pools for the charts' kinds."""
    metadata = {
        "name": name,
        "namespace": bundle.delivery.given.argocd.namespace,
        "labels": {MANAGED_BY: "gpupool", ENVIRONMENT_LABEL: bundle.environment},
        "annotations": {WAVE: str(wave)},
    }
    return {"apiVersion": API, "kind": kind, "metadata": metadata}


def cluster(bundle: Bundle) -> dict[str, str]:
    to = bundle.delivery.given.argocd.destination
    return {"name": to.name} if to.name else {"server": to.server or IN_CLUSTER}


def chart_repository(release: HelmRelease) -> str:
    """Argo CD recognizes a registry by the missing scheme (docs/user-guide/helm.md)."""
    return release.repository.removeprefix("oci://")
