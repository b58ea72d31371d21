"""Reads policies and bindings from documents, refusing what the API server refuses.

Only the form is judged here; expressions are compiled elsewhere. Rules after
`pkg/apis/admissionregistration/validation` of Kubernetes 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, cast

from policies.engine.documents import Document
from policies.engine.policy import (
    Binding,
    Expression,
    MatchResources,
    ParamRef,
    Policy,
    Rule,
    Validation,
    ValidationAction,
)
from policies.engine.selectors import Selector, read_selector

Problems = list[tuple[str, str]]
"""(path in the document, what is wrong and what would be right)."""

_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT", "*")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MATCH_FIELDS = (
    "resourceRules",
    "excludeResourceRules",
    "namespaceSelector",
    "objectSelector",
    "matchPolicy",
)
_RULE_FIELDS = ("operations", "apiGroups", "apiVersions", "resources", "scope", "resourceNames")
_POLICY_FIELDS = (
    "matchConstraints",
    "matchConditions",
    "variables",
    "validations",
    "auditAnnotations",
    "failurePolicy",
    "paramKind",
)
_BINDING_FIELDS = ("policyName", "matchResources", "validationActions", "paramRef")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*\Z")
_RESERVED = frozenset(
    {
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    }
)


def read_policy(document: Document) -> tuple[Policy, Problems]:
    """The policy, as far as it can be understood, and everything that is wrong with its form."""
    reader = _Reader()
    spec = reader.mapping(document.body, "spec", "spec", _POLICY_FIELDS, required=True)
    match = reader.match(spec, "matchConstraints", required=True)
    if spec.get("matchConstraints") and not match.rules:
        reader.say("spec.matchConstraints.resourceRules", "at least one rule is needed")
    conditions = reader.named(spec, "matchConditions", ("name", "expression"), "name", "expression")
    variables = reader.named(spec, "variables", ("name", "expression"), "name", "expression")
    for variable in variables:
        if not _IDENTIFIER.match(variable.name) or variable.name in _RESERVED:
            place = variable.path.removesuffix("expression") + "name"
            reader.say(place, f"{variable.name!r} is not a CEL identifier")
    validations = tuple(
        reader.validation(row, f"spec.validations[{index}]")
        for index, row in enumerate(reader.rows(spec, "validations", "spec.validations"))
    )
    audits = reader.named(spec, "auditAnnotations", ("key", "valueExpression"), "key", "valueExpression")
    if not validations and not audits:
        reader.say("spec.validations", "validations or auditAnnotations need at least one item")
    kind = reader.mapping(spec, "paramKind", "spec.paramKind", ("apiVersion", "kind"))
    failure = reader.choice(spec, "failurePolicy", "spec.failurePolicy", ("Fail", "Ignore"), "Fail")
    metadata = document.body.get("metadata") or {}
    policy = Policy(
        name=str(metadata.get("name", "")),
        document=document,
        match=match,
        conditions=conditions,
        variables=variables,
        validations=validations,
        audit_annotations=audits,
        fails_closed=failure != "Ignore",
        param_kind=(str(kind.get("apiVersion", "")), str(kind.get("kind", ""))) if kind else None,
        annotations={str(k): str(v) for k, v in (metadata.get("annotations") or {}).items()},
    )
    return policy, reader.problems


def read_binding(document: Document) -> tuple[Binding, Problems]:
    """The binding, as far as it can be understood, and everything that is wrong with its form."""
    reader = _Reader()
    spec = reader.mapping(document.body, "spec", "spec", _BINDING_FIELDS, required=True)
    actions = reader.texts(spec, "validationActions", "spec.validationActions", ("Deny", "Warn", "Audit"))
    if not actions:
        reader.say("spec.validationActions", "at least one of Deny, Warn, Audit is needed")
    if {"Deny", "Warn"} <= set(actions):
        reader.say("spec.validationActions", "Deny and Warn exclude each other; choose one")
    binding = Binding(
        name=str((document.body.get("metadata") or {}).get("name", "")),
        document=document,
        policy=reader.text(spec, "policyName", "spec.policyName", required=True),
        match=reader.match(spec, "matchResources"),
        actions=cast("tuple[ValidationAction, ...]", actions),
        param_ref=reader.param_ref(spec),
    )
    return binding, reader.problems


class _Reader:
    """Takes fields out of JSON values and notes everything that is wrong on the way."""

    def __init__(self) -> None:
        self.problems: Problems = []

    def say(self, path: str, message: str) -> None:
        self.problems.append((path, message))

    def mapping(
        self, parent: dict[str, Any], key: str, path: str, known: Collection[str], required: bool = False
    ) -> dict[str, Any]:
        value = parent.get(key)
        if value is None:
            if required:
                self.say(path, "is required")
            return {}
        if not isinstance(value, dict):
            self.say(path, f"a mapping is expected, not {value!r}")
            return {}
        for name in value:
            if name not in known:
                self.say(f"{path}.{name}", f"unknown field; known are {', '.join(known)}")
        return value

    def rows(self, parent: dict[str, Any], key: str, path: str) -> list[Any]:
        value = parent.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.say(path, f"a list is expected, not {value!r}")
            return []
        return value

    def text(self, parent: dict[str, Any], key: str, path: str, required: bool = False) -> str:
        value = parent.get(key)
        if value is None or value == "":
            if required:
                self.say(path, "is required")
            return ""
        if not isinstance(value, str):
            self.say(path, f"a string is expected, not {value!r}; quote it")
            return ""
        if required and not value.strip():
            self.say(path, "must not be blank")
        return value

    def choice(
        self, parent: dict[str, Any], key: str, path: str, choices: tuple[str, ...], default: str
    ) -> str:
        value = self.text(parent, key, path) or default
        if value not in choices:
            self.say(path, f"{value!r} is none of {', '.join(choices)}")
        return value

    def texts(
        self, parent: dict[str, Any], key: str, path: str, choices: tuple[str, ...] = ()
    ) -> tuple[str, ...]:
        found = []
        for index, value in enumerate(self.rows(parent, key, path)):
            if not isinstance(value, str):
                self.say(f"{path}[{index}]", f"a string is expected, not {value!r}; quote it")
            elif choices and value not in choices:
                self.say(f"{path}[{index}]", f"{value!r} is none of {', '.join(choices)}")
            elif choices and value in found:
                self.say(f"{path}[{index}]", f"{value!r} is given twice")
            else:
                found.append(value)
        return tuple(found)

    def named(
        self, spec: dict[str, Any], key: str, known: tuple[str, ...], name: str, expression: str
    ) -> tuple[Expression, ...]:
        """Rows of a name and an expression, such as variables."""
        found: list[Expression] = []
        for index, row in enumerate(self.rows(spec, key, f"spec.{key}")):
            path = f"spec.{key}[{index}]"
            fields = self.mapping({"row": row}, "row", path, known, required=True)
            label = self.text(fields, name, f"{path}.{name}", required=True)
            if label in [other.name for other in found] and key != "variables":
                self.say(f"{path}.{name}", f"{label!r} is given twice")
            text = self.text(fields, expression, f"{path}.{expression}", required=True)
            found.append(Expression(text, f"{path}.{expression}", label))
        return tuple(found)

    def validation(self, row: Any, path: str) -> Validation:
        known = ("expression", "message", "messageExpression", "reason")
        fields = self.mapping({"row": row}, "row", path, known, required=True)
        message = self.text(fields, "message", f"{path}.message").strip()
        if re.search(r"[\n\r]", message):
            self.say(f"{path}.message", "must not contain line breaks")
        worded = self.text(fields, "messageExpression", f"{path}.messageExpression")
        return Validation(
            expression=Expression(
                self.text(fields, "expression", f"{path}.expression", required=True), f"{path}.expression"
            ),
            message=message,
            message_expression=Expression(worded, f"{path}.messageExpression") if worded.strip() else None,
            reason=self.choice(fields, "reason", f"{path}.reason", _REASONS, "Invalid"),
        )

    def match(self, spec: dict[str, Any], key: str, required: bool = False) -> MatchResources:
        path = f"spec.{key}"
        fields = self.mapping(spec, key, path, _MATCH_FIELDS, required)
        policy = self.choice(
            fields, "matchPolicy", f"{path}.matchPolicy", ("Equivalent", "Exact"), "Equivalent"
        )
        return MatchResources(
            rules=self.rules(fields, "resourceRules", path),
            exclude=self.rules(fields, "excludeResourceRules", path),
            namespace_selector=self.selector(fields, "namespaceSelector", path),
            object_selector=self.selector(fields, "objectSelector", path),
            equivalent=policy == "Equivalent",
        )

    def selector(self, parent: dict[str, Any], key: str, path: str) -> Selector:
        selector, problems = read_selector(parent.get(key))
        for inside, message in problems:
            self.say(".".join(part for part in (path, key, inside) if part), message)
        return selector

    def rules(self, parent: dict[str, Any], key: str, path: str) -> tuple[Rule, ...]:
        found = []
        for index, row in enumerate(self.rows(parent, key, f"{path}.{key}")):
            place = f"{path}.{key}[{index}]"
            fields = self.mapping({"row": row}, "row", place, _RULE_FIELDS, required=True)
            operations = self.texts(fields, "operations", f"{place}.operations", _OPERATIONS)
            groups = self.texts(fields, "apiGroups", f"{place}.apiGroups")
            versions = self.texts(fields, "apiVersions", f"{place}.apiVersions")
            resources = self.texts(fields, "resources", f"{place}.resources")
            for name, values in (
                ("operations", operations),
                ("apiGroups", groups),
                ("apiVersions", versions),
                ("resources", resources),
            ):
                if not values:
                    self.say(f"{place}.{name}", "at least one item is needed")
                if len(values) > 1 and ("*" in values or "*/*" in values) and name != "resources":
                    self.say(f"{place}.{name}", "beside '*' nothing else may be given")
            split = tuple((res, sub) for res, _, sub in (item.partition("/") for item in resources))
            if len(resources) > 1 and "*/*" in resources:
                self.say(f"{place}.resources", "beside '*/*' nothing else may be given")
            if "*" in resources and any(sub == "" and res != "*" for res, sub in split):
                self.say(f"{place}.resources", "beside '*' no resource without subresource may be given")
            found.append(
                Rule(
                    operations=frozenset(operations),
                    groups=frozenset(groups),
                    versions=frozenset(versions),
                    resources=split,
                    scope=self.choice(fields, "scope", f"{place}.scope", ("*", "Cluster", "Namespaced"), "*"),
                    resource_names=frozenset(self.texts(fields, "resourceNames", f"{place}.resourceNames")),
                )
            )
        return tuple(found)

    def param_ref(self, spec: dict[str, Any]) -> ParamRef | None:
        path = "spec.paramRef"
        if spec.get("paramRef") is None:
            return None
        known = ("name", "namespace", "selector", "parameterNotFoundAction")
        fields = self.mapping(spec, "paramRef", path, known, required=True)
        name = self.text(fields, "name", f"{path}.name")
        selected = fields.get("selector") is not None
        if bool(name) == selected:
            self.say(path, "exactly one of name and selector is needed")
        action = fields.get("parameterNotFoundAction")
        if action not in ("Allow", "Deny"):
            self.say(f"{path}.parameterNotFoundAction", f"{action!r} is none of Allow, Deny")
        return ParamRef(
            name=name,
            namespace=self.text(fields, "namespace", f"{path}.namespace"),
            selector=self.selector(fields, "selector", path) if selected else None,
            deny_when_missing=action == "Deny",
        )
