"""ValidatingAdmissionPolicies and their bindings as plain values.

It must not read files (`reader`), compile expressions (`compiled_policy`) or judge objects (`judge`).
Field names are those of admissionregistration.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vapcheck.manifests.documents import Document
from vapcheck.policy.selectors import EVERYTHING, Selector

GROUP = "admissionregistration.k8s.io"
POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
ANNOTATION = "policies.gpupool.dev/"
"""Prefix of the annotations that the engine itself reads: title, why, fix, pod-templates."""
ValidationAction = Literal["Deny", "Warn", "Audit"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One of resourceRules or excludeResourceRules."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """(resource, subresource); either may be `*`, and no subresource is the empty text."""
    scope: str = "*"
    """Namespaced, Cluster or `*`."""
    resource_names: frozenset[str] = frozenset()
    """Empty: any name."""


@dataclass(frozen=True, slots=True)
class MatchResources:
    """What a policy or a binding applies to."""

    rules: tuple[Rule, ...] = ()
    exclude: tuple[Rule, ...] = ()
    namespace_selector: Selector = EVERYTHING
    object_selector: Selector = EVERYTHING
    equivalent: bool = True
    """matchPolicy Equivalent: the object's other API versions count as well."""

    names_objects: bool = field(init=False)
    """Whether the rules distinguish objects of one kind."""
    selects: bool = field(init=False)
    """Whether it has selectors of namespaces or objects."""

    def __post_init__(self) -> None:
        # Asked for every object, so found out once.
        named = any(rule.resource_names for rule in (*self.rules, *self.exclude))
        object.__setattr__(self, "names_objects", named)
        selectors = (self.namespace_selector, self.object_selector)
        object.__setattr__(self, "selects", any(selector.requirements for selector in selectors))


@dataclass(frozen=True, slots=True)
class Expression:
    """A CEL expression with its place in the policy."""

    text: str
    path: str
    """As `spec.validations[0].expression`."""
    name: str = ""
    """The match condition's or the variable's name, the audit annotation's key."""


@dataclass(frozen=True, slots=True)
class Validation:
    """One rule; it is violated when its expression isn't true."""

    expression: Expression
    message: str = ""
    message_expression: Expression | None = None
    reason: str = "Invalid"


@dataclass(frozen=True, slots=True)
class ParamRef:
    """Which parameter objects a binding hands to its policy."""

    name: str
    namespace: str
    selector: Selector | None
    """Instead of a name."""
    deny_when_missing: bool
    """parameterNotFoundAction Deny."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One ValidatingAdmissionPolicy."""

    name: str
    document: Document
    match: MatchResources
    conditions: tuple[Expression, ...]
    variables: tuple[Expression, ...]
    validations: tuple[Validation, ...]
    audit_annotations: tuple[Expression, ...]
    fails_closed: bool
    """failurePolicy Fail: an error counts as a denial."""
    param_kind: tuple[str, str] | None
    """(apiVersion, kind) of the parameters."""
    annotations: Mapping[str, str]

    def text(self, key: str) -> str:
        """The text of one of the engine's annotations (`title`, `why`, `fix`), or nothing."""
        return self.annotations.get(ANNOTATION + key, "")

    @property
    def judges_pod_templates(self) -> bool:
        """Whether its author wants pods inside workloads judged as pods, before there are any."""
        return self.text("pod-templates") == "true"


@dataclass(frozen=True, slots=True)
class Binding:
    """One ValidatingAdmissionPolicyBinding."""

    name: str
    document: Document
    policy: str
    match: MatchResources
    actions: tuple[ValidationAction, ...]
    param_ref: ParamRef | None
