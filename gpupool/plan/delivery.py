"""Who brings an environment's objects to the cluster, with every default filled. Part of the Plan.

Frozen values; what Argo CD and Flux make of them is in `generators`.
"""

from __future__ import annotations

from dataclasses import dataclass

IN_CLUSTER = "https://kubernetes.default.svc"
"""Argo CD's address of the cluster that it runs in itself."""


@dataclass(frozen=True, slots=True)
class ArgoCd:
    namespace: str
    project: str
    server: str | None
    """Address of the destination; None where it has a name."""
    cluster: str | None
    """Name of the destination in Argo CD; None where it has an address."""
    automated: bool


@dataclass(frozen=True, slots=True)
class Flux:
    namespace: str
    interval: str
    secret: str | None
    service_account: str | None


@dataclass(frozen=True, slots=True)
class Delivery:
    engine: str
    """pulumi, argocd or flux."""
    repo: str
    """Empty where the engine is pulumi, as `path` is."""
    path: str
    """Relative, without `.` and `..` parts; `.` for the repository's root."""
    revision: str
    on_removal: str
    """confirm, keep or delete."""
    argocd: ArgoCd | None
    """None where another engine delivers."""
    flux: Flux | None

    @property
    def gitops(self) -> bool:
        """Whether another engine applies the rendered files, so that `gpupool up` must not."""
        return self.engine != "pulumi"


PULUMI = Delivery("pulumi", "", "", "", "delete", None, None)
"""`gpupool up` applies; the rendered files have nothing for a delivery engine."""
