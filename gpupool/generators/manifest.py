"""The list of manifests: the interface between what gpupool derives and how it is applied.

A Manifest is a plain Kubernetes object plus the two facts about it that no Kubernetes field can say.
This module must not depend on how objects are generated, written or sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.environment.plan.delivery import PULUMI, Delivery
from gpupool.environment.plan.operator_place import is_operator_map
from gpupool.environment.spec.environment import OPERATOR_NAMESPACE
from gpupool.generators.kinds import OPERATORS, WAVES, Wave, kind_of, rank_of


@dataclass(frozen=True, slots=True)
class Manifest:
    """One Kubernetes object, or one patch of an object that somebody else owns."""

    body: Mapping[str, Any]
    """The object as it would be given to the API server: apiVersion, kind, metadata, spec ..."""

    patch: bool = False
    """True where only the fields in `body` are ours (a static Node's labels and taints): applied as a
    field-owned patch, given back on destroy; the object itself is never created or deleted."""

    protect: bool = False
    """True where deleting the object loses other people's work (a tenant's namespace)."""

    @property
    def api_version(self) -> str:
        return str(self.body["apiVersion"])

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def group(self) -> str:
        """API group, empty for the core's."""
        return self.api_version.rpartition("/")[0]

    @property
    def namespace(self) -> str | None:
        """The namespace, None for cluster-scoped objects."""
        namespace: str | None = self.body["metadata"].get("namespace")
        return namespace

    @property
    def labels(self) -> Mapping[str, str]:
        labels: Mapping[str, str] = self.body["metadata"].get("labels", {})
        return labels

    @property
    def key(self) -> tuple[int, str, str, str, str]:
        """Sort key: application order, then apiVersion, kind, namespace, name. Unique in a bundle."""
        return (rank_of(self.kind), self.api_version, self.kind, self.namespace or "", self.name)

    @property
    def wave(self) -> Wave:
        """The wave in which an engine applies it from rendered files."""
        if self.mounted_by_operator:
            return OPERATORS
        return kind_of(self.kind).wave

    @property
    def mounted_by_operator(self) -> bool:
        """Whether it is a configuration that the GPU Operator's operands mount."""
        return is_operator_map(self.kind, self.name)

    @property
    def recreated(self) -> bool:
        """Whether a change of the environment's file may change a field that an object can't change."""
        return kind_of(self.kind).recreated and not self.patch

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name}"


@dataclass(frozen=True, slots=True)
class HelmRelease:
    """A chart from a public repository with the values that the environment amounts to."""

    name: str
    namespace: str
    chart: str
    repository: str
    """https:// of a chart repository, or oci:// of a registry path without the chart's name."""
    version: str
    values: Mapping[str, Any]


Part = Manifest | HelmRelease
"""What a Bundle is made of."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Everything that one environment amounts to, in application order."""

    environment: str
    manifests: tuple[Manifest, ...]
    releases: tuple[HelmRelease, ...]
    delivery: Delivery = PULUMI
    """Who applies it. The manifests are the same for all; files carry notes for Argo CD or Flux as well."""
    operator_namespace: str = OPERATOR_NAMESPACE
    """Where the GPU Operator runs, and its configurations are."""

    def __iter__(self) -> Iterator[Manifest]:
        return iter(self.manifests)

    def by_wave(self) -> dict[Wave, list[Manifest]]:
        """Every wave in order, the empty ones too, with its manifests in application order."""
        sorted_into: dict[Wave, list[Manifest]] = {wave: [] for wave in WAVES}
        for manifest in self.manifests:
            sorted_into[manifest.wave].append(manifest)
        return sorted_into


def bundle(
    environment: str,
    parts: Iterable[Part],
    delivery: Delivery = PULUMI,
    operator_namespace: str = OPERATOR_NAMESPACE,
) -> Bundle:
    """Sort `parts` into a Bundle. Two objects with one identity are an error of the generators."""
    manifests: dict[tuple[int, str, str, str, str], Manifest] = {}
    releases: list[HelmRelease] = []
    for part in parts:
        if isinstance(part, HelmRelease):
            releases.append(part)
        elif part.key in manifests:
            raise AssertionError(f"two generators emit {part}")
        else:
            manifests[part.key] = part
    ordered = tuple(manifests[key] for key in sorted(manifests))
    charts = tuple(sorted(releases, key=lambda release: release.name))
    return Bundle(environment, ordered, charts, delivery, operator_namespace)
