"""Who brings an environment's objects to the cluster. Part of the Plan.

Here is what holds of an engine in every environment. What Argo CD and Flux make of a rendering, and of their
own settings in the file, is in `generators`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpupool.environment.spec import delivery as spec


@dataclass(frozen=True, slots=True)
class Engine:
    name: str
    """The value of `delivery.engine`, and the section with its settings."""
    title: str
    managers: tuple[str, ...]
    """Field managers under which it applies, first the one for objects that it applies itself (Argo CD
    documentation, server-side apply, and its name where it applies on the client's side; Flux documentation,
    Kustomization)."""
    on_removal: str
    """What it does where the file says nothing: confirm, keep or delete."""
    asks: bool
    """Whether it can ask before it deletes."""
    takes_scp: bool
    """Whether it takes git@host:path for SSH, as Git does (Flux: GitRepository v1, spec.url)."""
    credentials: str
    """Where it reads those of the repository."""


ENGINE_FACTS: Mapping[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine(
            "pulumi",
            "Pulumi",
            ("gpupool", "pulumi-kubernetes"),
            "delete",
            asks=True,
            takes_scp=True,
            credentials="",
        ),
        Engine(
            "argocd",
            "Argo CD",
            ("argocd-controller", "argocd-application-controller"),
            "confirm",
            asks=True,
            takes_scp=True,
            credentials="Argo CD's repository Secret",
        ),
        Engine(
            "flux",
            "Flux",
            ("kustomize-controller", "helm-controller"),
            "keep",
            asks=False,
            takes_scp=False,
            credentials="a Secret named by delivery.flux.secret",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Delivery:
    by: Engine
    repo: str
    """Empty where `gpupool up` applies, as `path` is."""
    path: str
    """Relative, without `.` and `..` parts; `.` for the repository's root."""
    revision: str
    on_removal: str
    """confirm, keep or delete."""
    given: spec.Delivery
    """The file's section, for the settings that only one engine has."""

    @property
    def engine(self) -> str:
        return self.by.name

    @property
    def gitops(self) -> bool:
        """Whether another engine applies the rendered files, so that `gpupool up` must not."""
        return self.by.name != "pulumi"


PULUMI = Delivery(ENGINE_FACTS["pulumi"], "", "", "", "delete", spec.Delivery())
"""`gpupool up` applies; the rendered files have nothing for a delivery engine."""
