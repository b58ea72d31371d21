"""Which kinds there are and where they live: those of a minor of Kubernetes, and those of CRDs in a bundle.

The built-in ones are data (kinds/*.json), written by `python -m gpupool.local.kinds_from_cluster` from a real
server; they are read when they are asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from vapcheck.manifests.documents import Document
from vapcheck.manifests.objects import mapping_in
from vapcheck.server.minors import NEWEST, nearest
from vapcheck.server.schema import Schema, builtin, of_crd, of_minor

_COHABITING = {("", "events"): "events", ("events.k8s.io", "events"): "events"}
"""Resources of two groups that are stored as one (kube-apiserver 1.36, DefaultStorageFactory)."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Where the objects of one kind live, in one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    drops_status: bool = field(default=False, compare=False)
    """Whether the server drops the status of an object that is made: of built-in kinds, and of custom ones
    that have status as a subresource."""
    alike_in_versions: bool = field(default=False, compare=False)
    """Whether the server converts between the versions of the kind by writing another apiVersion: custom ones
    with conversion None (apiextensions-apiserver 0.36, conversion/nop_converter.go)."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class Kinds:
    """The kinds that a cluster has."""

    def __init__(
        self,
        resources: Iterable[Resource],
        schemas: Mapping[tuple[str, str], Schema | str],
        kubernetes: str = NEWEST,
    ) -> None:
        """`schemas` by (apiVersion, kind): a schema, or the name of a built-in definition. `kubernetes`: the
        cluster's version. Raises ValueError where that is no version 1.x."""
        self.kubernetes = kubernetes
        """As it was given: `minor` is another one where it is not known."""
        self.minor = nearest(kubernetes)
        """The minor that objects and policies are judged as."""
        self._resources = tuple(resources)
        self._schemas = dict(schemas)
        self._by_kind = {(row.api_version, row.kind): row for row in self._resources}
        self._by_plural = {(row.group, row.version, row.plural): row for row in self._resources}

    @classmethod
    @functools.cache
    def builtin(cls, kubernetes: str = NEWEST) -> Kinds:
        """The kinds of Kubernetes itself, in that version, alpha and beta ones included. Raises ValueError
        where it is no version 1.x."""
        schemas = {}
        for key, (plural, namespaced, definition) in of_minor("resources", nearest(kubernetes)).items():
            api_version, kind = key.split()
            group, _, version = api_version.rpartition("/")
            schemas[Resource(group, version, kind, plural, namespaced, drops_status=True)] = definition
        resources = sorted(schemas, key=lambda row: (row.group, row.version, row.kind))
        return cls(resources, {(row.api_version, row.kind): schemas[row] for row in resources}, kubernetes)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources)

    def with_crds(self, documents: Iterable[Document]) -> Kinds:
        """These kinds and those that CustomResourceDefinitions among `documents` add; self where there are
        none. A definition that isn't well formed adds nothing."""
        added: dict[Resource, Schema] = {}
        for document in documents:
            body = document.body
            if body.get("kind") == "CustomResourceDefinition" and str(body.get("apiVersion")).startswith(
                "apiextensions.k8s.io/"
            ):
                added.update(_defined(body))
        if not added:
            return self
        schemas = {(row.api_version, row.kind): schema for row, schema in added.items()}
        kept = [row for row in self._resources if (row.api_version, row.kind) not in schemas]
        return Kinds([*kept, *added], {**self._schemas, **schemas}, self.kubernetes)

    def with_resources(self, rows: Iterable[Resource]) -> Kinds:
        """These kinds and, without their fields, those of `rows` that are not among them."""
        added = {(row.api_version, row.kind): row for row in rows}
        new = [row for key, row in added.items() if key not in self._by_kind]
        return Kinds([*self._resources, *new], self._schemas, self.kubernetes)

    def resource(self, api_version: str, kind: str) -> Resource | None:
        """The resource of `kind`, None for one that isn't known."""
        return self._by_kind.get((api_version, kind))

    @functools.cached_property
    def groups(self) -> frozenset[str]:
        """Every group that has a kind, "" for core."""
        return frozenset(row.group for row in self._resources)

    def in_groups(self, groups: Iterable[str]) -> list[Resource]:
        """Every resource of these groups, in all versions."""
        wanted = frozenset(groups)
        return [row for row in self._resources if row.group in wanted]

    def by_plural(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource called `pods` in a group ("" for core) and version."""
        return self._by_plural.get((group, version, plural))

    def same(self, resource: Resource) -> tuple[Resource, ...]:
        """All stored as the same objects, `resource` included: what matchPolicy Equivalent covers."""
        group = _COHABITING.get((resource.group, resource.plural), resource.group)
        resources = [
            row
            for row in self._resources
            if row.plural == resource.plural and _COHABITING.get((row.group, row.plural), row.group) == group
        ]
        return tuple(resources) or (resource,)

    def is_builtin(self, api_version: str, kind: str) -> bool:
        """Whether the kind is one of Kubernetes itself."""
        return isinstance(self._schemas.get((api_version, kind)), str)

    def schema(self, api_version: str, kind: str) -> Schema | None:
        """The fields of a kind, None for one that isn't known."""
        found = self._schemas.get((api_version, kind))
        return builtin(found, self.minor) if isinstance(found, str) else found


def _defined(body: Mapping[str, Any]) -> dict[Resource, Schema]:
    """What a CustomResourceDefinition adds, by version that is served."""
    try:
        spec = body["spec"]
        names, namespaced = spec["names"], spec.get("scope") == "Namespaced"
        preserve = bool(spec.get("preserveUnknownFields"))
        converted = (spec.get("conversion") or {}).get("strategy", "None") != "None"
        found = {}
        for version in spec["versions"]:
            if version.get("served", True):
                row = Resource(
                    spec["group"],
                    version["name"],
                    names["kind"],
                    names["plural"],
                    namespaced,
                    drops_status=isinstance((version.get("subresources") or {}).get("status"), dict),
                    alike_in_versions=not converted,
                )
                raw = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
                found[row] = of_crd(raw, preserve=preserve, top=True)
        return found if all(isinstance(row.kind, str) and row.plural for row in found) else {}
    except (KeyError, TypeError, AttributeError):
        return {}


def resource_of(body: Mapping[str, Any], kinds: Kinds) -> Resource:
    """The resource of an object; of an unknown kind the most likely one: with the plural that `kubectl` would
    guess, and namespaced, as most are."""
    api_version, kind = str(body.get("apiVersion", "")), str(body.get("kind", ""))
    known = kinds.resource(api_version, kind)
    if known is not None:
        return known
    group, _, version = api_version.rpartition("/")
    return Resource(group, version, kind, _guessed_plural(kind), namespaced=True)


def namespace_of(body: Mapping[str, Any]) -> str:
    """The namespace that an object names, or nothing."""
    return str(mapping_in(body, "metadata").get("namespace") or "")


def _guessed_plural(kind: str) -> str:
    """The usual plural of a kind's name (as apimachinery's UnsafeGuessKindToResource does)."""
    name = kind.lower()
    if name.endswith("s"):
        return name + "es"
    if name.endswith("y"):
        return name[:-1] + "ies"
    return name + "s"
