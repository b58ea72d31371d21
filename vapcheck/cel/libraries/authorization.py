"""The CEL library `authz`: `authorizer.group('').resource('pods').namespace('x').check('create').allowed()`.

The chain only collects the question; an authorizer that the caller supplies decides it, for example
one that reads the RBAC objects of a bundle. Facts: apiserver 0.36 pkg/cel/library/authz.go.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from vapcheck.cel.errors import CelError, NoSuchOverload
from vapcheck.cel.libraries import costs
from vapcheck.cel.libraries.declaration import Cost, Overload, member, unit
from vapcheck.cel.libraries.name_formats import is_namespace_name, is_service_account_name
from vapcheck.cel.values import Opaque


@dataclass(frozen=True, slots=True)
class Attributes:
    """One question to an authorizer."""

    user: str
    groups: tuple[str, ...]
    verb: str
    path: str = ""
    """For anything but a resource; then `resource` is empty."""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    """Empty for the cluster scope."""
    name: str = ""
    """Empty for any."""
    field_selector: str = ""
    """As written; empty for none."""
    label_selector: str = ""
    version: str = "*"


class AuthorizationError(Exception):
    """A question that could not be decided; the decision is `errored()` then."""


class Decider(Protocol):
    """Who may do what."""

    def decide(self, attributes: Attributes) -> tuple[bool, str]:
        """Whether it is allowed, and why (may be empty). Raises AuthorizationError."""


class _Incomparable(Opaque):
    """The API server refuses to compare these even with themselves."""

    __slots__ = ()

    def key(self) -> Hashable:
        return id(self)

    def equals(self, _other: object) -> bool:
        raise NoSuchOverload


@dataclass(frozen=True, slots=True, eq=False)
class Authorizer(_Incomparable):
    """The variable `authorizer`: a user and whom to ask."""

    type_name: ClassVar[str] = "kubernetes.authorization.Authorizer"
    decider: Decider
    user: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class PathCheck(_Incomparable):
    """A question about a path, but for its verb."""

    type_name: ClassVar[str] = "kubernetes.authorization.PathCheck"
    authorizer: Authorizer
    path: str


@dataclass(frozen=True, slots=True, eq=False)
class GroupCheck(_Incomparable):
    """An API group to ask about."""

    type_name: ClassVar[str] = "kubernetes.authorization.GroupCheck"
    authorizer: Authorizer
    group: str


@dataclass(frozen=True, slots=True, eq=False)
class ResourceCheck(_Incomparable):
    """A question about a resource, but for its verb. Also the variable `authorizer.requestResource`."""

    type_name: ClassVar[str] = "kubernetes.authorization.ResourceCheck"
    authorizer: Authorizer
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Decision(_Incomparable):
    """The answer."""

    type_name: ClassVar[str] = "kubernetes.authorization.Decision"
    allowed: bool
    reason: str = ""
    error: str = ""
    errored: bool = False


def path(authorizer: Authorizer, path: str) -> PathCheck:
    """Raises CelError for an empty path."""
    if not path.strip():
        raise CelError("path must not be empty")
    return PathCheck(authorizer, path)


def resource(check: GroupCheck, resource: str) -> ResourceCheck:
    """Raises CelError for an empty name."""
    if not resource.strip():
        raise CelError("resource must not be empty")
    return ResourceCheck(check.authorizer, check.group, resource)


def service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    """The same authorizer asked for a service account. Raises CelError for names that none can have."""
    if not is_service_account_name(name):
        raise CelError("Invalid service account name")
    if not is_namespace_name(namespace):
        raise CelError("Invalid service account namespace")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return Authorizer(authorizer.decider, f"system:serviceaccount:{namespace}:{name}", groups)


def _decided(decider: Decider, attributes: Attributes) -> Decision:
    try:
        allowed, reason = decider.decide(attributes)
    except AuthorizationError as error:
        return Decision(False, error=str(error), errored=True)
    return Decision(allowed, reason)


def check_path(check: PathCheck, verb: str) -> Decision:
    """Ask about a path."""
    who = check.authorizer
    return _decided(who.decider, Attributes(who.user, who.groups, verb, path=check.path))


def check_resource(check: ResourceCheck, verb: str) -> Decision:
    """Ask about a resource."""
    who = check.authorizer
    attributes = Attributes(
        who.user,
        who.groups,
        verb,
        group=check.group,
        resource=check.resource,
        subresource=check.subresource,
        namespace=check.namespace,
        name=check.name,
        field_selector=check.field_selector,
        label_selector=check.label_selector,
    )
    return _decided(who.decider, attributes)


def _setting(id: str, function: str, field: str, cost: Cost = unit) -> Overload:
    """A function that narrows a question about a resource."""
    return member(
        id,
        function,
        (_RESOURCE, "string", _RESOURCE),
        lambda check, value: replace(check, **{field: value}),
        cost,
    )


_AUTHORIZER, _PATH, _GROUP = Authorizer.type_name, PathCheck.type_name, GroupCheck.type_name
_RESOURCE, _DECISION = ResourceCheck.type_name, Decision.type_name
OVERLOADS: tuple[Overload, ...] = (
    member("authorizer_path", "path", (_AUTHORIZER, "string", _PATH), path),
    member("authorizer_group", "group", (_AUTHORIZER, "string", _GROUP), GroupCheck),
    member(
        "authorizer_serviceaccount",
        "serviceAccount",
        (_AUTHORIZER, "string", "string", _AUTHORIZER),
        service_account,
    ),
    member("groupcheck_resource", "resource", (_GROUP, "string", _RESOURCE), resource),
    _setting("resourcecheck_subresource", "subresource", "subresource"),
    _setting("resourcecheck_namespace", "namespace", "namespace"),
    _setting("resourcecheck_name", "name", "name"),
    _setting("authorizer_fieldselector", "fieldSelector", "field_selector", costs.selector),
    _setting("authorizer_labelselector", "labelSelector", "label_selector", costs.selector),
    member("pathcheck_check", "check", (_PATH, "string", _DECISION), check_path, costs.authorization),
    member(
        "resourcecheck_check", "check", (_RESOURCE, "string", _DECISION), check_resource, costs.authorization
    ),
    member("decision_errored", "errored", (_DECISION, "bool"), lambda decision: decision.errored),
    member("decision_error", "error", (_DECISION, "string"), lambda decision: decision.error),
    member("decision_allowed", "allowed", (_DECISION, "bool"), lambda decision: decision.allowed),
    member("decision_reason", "reason", (_DECISION, "string"), lambda decision: decision.reason),
)
