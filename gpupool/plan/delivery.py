"""Who brings an environment's objects to the cluster, with every default filled. Part of the Plan.

An engine is a class: its settings are the fields, and what holds of it in every environment are the class's
attributes. What Argo CD and Flux make of a rendering is in `generators`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

from gpupool.spec import delivery as spec

IN_CLUSTER = "https://kubernetes.default.svc"
"""Argo CD's address of the cluster that it runs in itself."""


class Engine(Protocol):
    name: ClassVar[str]
    """The value of `delivery.engine`, and the section with its settings."""
    title: ClassVar[str]
    managers: ClassVar[frozenset[str]]
    """Field managers under which it applies in the place of `gpupool up` (Argo CD documentation, server-side
    apply, and its name where it applies on the client's side; Flux documentation, Kustomization)."""
    on_removal: ClassVar[str]
    """What it does where the file says nothing: confirm, keep or delete."""
    asks: ClassVar[bool]
    """Whether it can ask before it deletes."""
    takes_scp: ClassVar[bool]
    """Whether it takes git@host:path for SSH, as Git does (Flux: GitRepository v1, spec.url)."""
    credentials: ClassVar[str]
    """Where it reads those of the repository."""

    @classmethod
    def of(cls, given: spec.Delivery, environment: str) -> Self:
        """Its settings of an environment."""


@dataclass(frozen=True, slots=True)
class Pulumi:
    """`gpupool up` applies."""

    name: ClassVar[str] = "pulumi"
    title: ClassVar[str] = "Pulumi"
    managers: ClassVar[frozenset[str]] = frozenset()
    on_removal: ClassVar[str] = "delete"
    asks: ClassVar[bool] = True
    takes_scp: ClassVar[bool] = True
    credentials: ClassVar[str] = ""

    @classmethod
    def of(cls, _given: spec.Delivery, _environment: str, /) -> Self:
        return cls()


@dataclass(frozen=True, slots=True)
class ArgoCd:
    name: ClassVar[str] = "argocd"
    title: ClassVar[str] = "Argo CD"
    managers: ClassVar[frozenset[str]] = frozenset({"argocd-controller", "argocd-application-controller"})
    on_removal: ClassVar[str] = "confirm"
    asks: ClassVar[bool] = True
    takes_scp: ClassVar[bool] = True
    credentials: ClassVar[str] = "Argo CD's repository Secret"
    namespace: str
    project: str
    server: str | None
    """Address of the destination; None where it has a name."""
    cluster: str | None
    """Name of the destination in Argo CD; None where it has an address."""
    automated: bool

    @classmethod
    def of(cls, given: spec.Delivery, environment: str) -> Self:
        own, to = given.argocd, given.argocd.destination
        server = to.server or (None if to.name else IN_CLUSTER)
        return cls(own.namespace, own.project or f"gpupool-{environment}", server, to.name, own.automated)


@dataclass(frozen=True, slots=True)
class Flux:
    name: ClassVar[str] = "flux"
    title: ClassVar[str] = "Flux"
    managers: ClassVar[frozenset[str]] = frozenset({"kustomize-controller", "helm-controller"})
    on_removal: ClassVar[str] = "keep"
    asks: ClassVar[bool] = False
    takes_scp: ClassVar[bool] = False
    credentials: ClassVar[str] = "a Secret named by delivery.flux.secret"
    namespace: str
    interval: str
    secret: str | None
    service_account: str | None

    @classmethod
    def of(cls, given: spec.Delivery, _environment: str, /) -> Self:
        own = given.flux
        return cls(own.namespace, own.interval, own.secret, own.service_account)


ENGINE_CLASSES: Mapping[str, type[Engine]] = {engine.name: engine for engine in (Pulumi, ArgoCd, Flux)}


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

    @property
    def engine(self) -> str:
        return self.by.name

    @property
    def gitops(self) -> bool:
        """Whether another engine applies the rendered files, so that `gpupool up` must not."""
        return not isinstance(self.by, Pulumi)


PULUMI = Delivery(Pulumi(), "", "", "", Pulumi.on_removal)
"""`gpupool up` applies; the rendered files have nothing for a delivery engine."""
