"""One request to the API server, as admission sees it, and its user, as a person gives one.

It must not depend on where the object came from or on policies, and checks no permissions (see `rbac`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vapcheck.server.kinds import Resource

OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
"""Kinds of `request.options`. Patches and applies count as updates or creations."""


@dataclass(frozen=True, slots=True)
class User:
    """The user of the request: the identity that the API server's authentication verifies, here chosen by the
    caller."""

    name: str = "gpupool-check"
    groups: tuple[str, ...] = ("system:authenticated",)
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def as_cel(self) -> dict[str, Any]:
        """`request.userInfo`; empty fields are absent, as in the server's JSON."""
        body: dict[str, Any] = {}
        if self.name:
            body["username"] = self.name
        if self.uid:
            body["uid"] = self.uid
        if self.groups:
            body["groups"] = list(self.groups)
        if self.extra:
            body["extra"] = {key: list(values) for key, values in self.extra.items()}
        return body


_SERVICE_ACCOUNT = "system:serviceaccount:"


def identity(
    name: str = "",
    groups: Sequence[str] = (),
    uid: str = "",
    extra: Mapping[str, tuple[str, ...]] | None = None,
) -> User:
    """The user called `name` (default: the engine's own) in `groups` and those that follow from the name.

    Service accounts belong to system:serviceaccounts and that of their namespace, and every user to
    system:authenticated (Kubernetes 1.36, authentication/serviceaccount and authentication/group).
    """
    implied: list[str] = []
    if name.startswith(_SERVICE_ACCOUNT):
        namespace = name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
        implied += ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if name != "system:anonymous":
        implied.append("system:authenticated")
    every = tuple(dict.fromkeys([*groups, *implied]))
    return User(name or User().name, every, uid, extra or {})


def read_extra(pairs: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What `userInfo.extra` has, of KEY=VALUE texts; a key that is there again has one more value. Raises
    ValueError, with the text, for what is no such pair."""
    found: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise ValueError(pair)
        found[key] = (*found.get(key, ()), value)
    return found


@dataclass(frozen=True, slots=True)
class Request:
    """A create, update or delete of one object."""

    operation: str
    resource: Resource
    """Group, version and plural that the client addressed."""
    name: str
    """For generateName the generated one: the server makes it up before it asks policies."""
    namespace: str
    """Empty for cluster-scoped objects; a Namespace object's own name for itself, as the server has it."""
    object: dict[str, Any] | None
    """None on DELETE."""
    old_object: dict[str, Any] | None
    """None on CREATE."""
    user: User = User()
    subresource: str = ""
    dry_run: bool = False
    own_kind: tuple[str, str] | None = None
    """apiVersion and kind of the subresource's object, where that is not the resource's."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the client asks for beside the object: of `request.options`, without kind and apiVersion."""
    kind: str = field(init=False)
    """The fields that rules without names read; equal for requests that such rules can't distinguish."""

    def __post_init__(self) -> None:
        own = self.resource
        parts = (own.group, own.version, own.plural, self.subresource, self.operation)
        object.__setattr__(self, "kind", " ".join((*parts, "namespaced" if self.namespace else "cluster")))

    @property
    def is_namespace(self) -> bool:
        """Whether the object is a Namespace itself."""
        return self.resource.group == "" and self.resource.plural == "namespaces"

    def _options(self) -> dict[str, Any] | None:
        """`request.options`; None of a CONNECT."""
        kind = _OPTIONS.get(self.operation)
        if kind is None:
            return None
        body: dict[str, Any] = {"kind": kind, "apiVersion": "meta.k8s.io/v1", **self.options}
        return body | {"dryRun": ["All"]} if self.dry_run else body

    def as_cel(self, matched: Resource | None = None) -> dict[str, Any]:
        """The `request` variable of a policy whose rule matched this resource, by default as addressed."""
        body: dict[str, Any] = {
            "uid": "",
            **_names("kind", "resource", matched or self.resource, self.own_kind),
            **_names("requestKind", "requestResource", self.resource, self.own_kind),
            "operation": self.operation,
            "userInfo": self.user.as_cel(),
            "object": None,
            "oldObject": None,
            "dryRun": self.dry_run,
            "options": self._options(),
        }
        optional = {
            "name": self.name,
            "namespace": self.namespace,
            "subResource": self.subresource,
            "requestSubResource": self.subresource,
        }
        return body | {key: value for key, value in optional.items() if value}


def _names(kind: str, resource: str, of: Resource, own_kind: tuple[str, str] | None) -> dict[str, Any]:
    api_version, name = own_kind or (of.api_version, of.kind)
    group, _, version = api_version.rpartition("/")
    return {
        kind: {"group": group, "version": version, "kind": name},
        resource: {"group": of.group, "version": of.version, "resource": of.plural},
    }
