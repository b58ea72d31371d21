"""The CEL library `authz`: `authorizer.group('').resource('pods').namespace('x').check('create').allowed()`.

The chain only collects the question; an authorizer that the caller supplies decides it, for example
one that reads the RBAC objects of a bundle. Facts: apiserver 0.36 pkg/cel/library/authz.go.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from vapcheck.cel.errors import CelError, NoSuchOverload
from vapcheck.cel.libraries import costs
from vapcheck.cel.libraries.declaration import Cost, Overload, member, unit
from vapcheck.cel.libraries.name_formats import is_namespace_name, is_service_account_name
from vapcheck.cel.values import Opaque


@dataclass(frozen=True, slots=True)
class Attributes:
    """One question to an authorizer."""

    user: str
    groups: tuple[str, ...] = ()
    verb: str = ""
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
class Question(_Incomparable):
    """What was gathered so far of a question, at the least whom it is about, and whom to ask."""

    decider: Decider
    asked: Attributes


class Authorizer(Question):
    """The variable `authorizer`."""

    __slots__ = ()
    type_name = "kubernetes.authorization.Authorizer"


class PathCheck(Question):
    """A question about a path, but for its verb."""

    __slots__ = ()
    type_name = "kubernetes.authorization.PathCheck"


class GroupCheck(Question):
    """An API group to ask about."""

    __slots__ = ()
    type_name = "kubernetes.authorization.GroupCheck"


class ResourceCheck(Question):
    """A question about a resource, but for its verb. Also the variable `authorizer.requestResource`."""

    __slots__ = ()
    type_name = "kubernetes.authorization.ResourceCheck"


@dataclass(frozen=True, slots=True, eq=False)
class Decision(_Incomparable):
    """The answer."""

    type_name: ClassVar[str] = "kubernetes.authorization.Decision"
    allowed: bool
    reason: str = ""
    error: str = ""
    errored: bool = False


def adding(field: str, gives: type[Question], required: bool = False) -> Callable[[Question, str], Question]:
    """The function that adds one attribute to a question; an empty one raises CelError if it is required."""

    def add(question: Question, value: str) -> Question:
        if required and not value.strip():
            raise CelError(f"{field} must not be empty")
        more: dict[str, Any] = {field: value}
        return gives(question.decider, replace(question.asked, **more))

    return add


def service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    """The same authorizer asked for a service account. Raises CelError for names that none can have."""
    if not is_service_account_name(name):
        raise CelError("Invalid service account name")
    if not is_namespace_name(namespace):
        raise CelError("Invalid service account namespace")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return Authorizer(authorizer.decider, Attributes(f"system:serviceaccount:{namespace}:{name}", groups))


def check(question: Question, verb: str) -> Decision:
    """Ask about a path or a resource."""
    try:
        allowed, reason = question.decider.decide(replace(question.asked, verb=verb))
    except AuthorizationError as error:
        return Decision(False, error=str(error), errored=True)
    return Decision(allowed, reason)


def _narrowing(id: str, function: str, field: str, cost: Cost = unit) -> Overload:
    """A function that narrows a question about a resource."""
    return member(id, function, (_RESOURCE, "string", _RESOURCE), adding(field, ResourceCheck), cost)


_AUTHORIZER, _PATH, _GROUP = Authorizer.type_name, PathCheck.type_name, GroupCheck.type_name
_RESOURCE, _DECISION = ResourceCheck.type_name, Decision.type_name
_ACCOUNT = (_AUTHORIZER, "string", "string", _AUTHORIZER)
path, resource = adding("path", PathCheck, required=True), adding("resource", ResourceCheck, required=True)
OVERLOADS: tuple[Overload, ...] = (
    member("authorizer_path", "path", (_AUTHORIZER, "string", _PATH), path),
    member("authorizer_group", "group", (_AUTHORIZER, "string", _GROUP), adding("group", GroupCheck)),
    member("authorizer_serviceaccount", "serviceAccount", _ACCOUNT, service_account),
    member("groupcheck_resource", "resource", (_GROUP, "string", _RESOURCE), resource),
    _narrowing("resourcecheck_subresource", "subresource", "subresource"),
    _narrowing("resourcecheck_namespace", "namespace", "namespace"),
    _narrowing("resourcecheck_name", "name", "name"),
    member("pathcheck_check", "check", (_PATH, "string", _DECISION), check, costs.authorization),
    member("resourcecheck_check", "check", (_RESOURCE, "string", _DECISION), check, costs.authorization),
    member("decision_errored", "errored", (_DECISION, "bool"), lambda decision: decision.errored),
    member("decision_error", "error", (_DECISION, "string"), lambda decision: decision.error),
    member("decision_allowed", "allowed", (_DECISION, "bool"), lambda decision: decision.allowed),
    member("decision_reason", "reason", (_DECISION, "string"), lambda decision: decision.reason),
)
SELECTORS: tuple[Overload, ...] = (
    _narrowing("authorizer_fieldselector", "fieldSelector", "field_selector", costs.selector),
    _narrowing("authorizer_labelselector", "labelSelector", "label_selector", costs.selector),
)
