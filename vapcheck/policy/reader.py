"""Reads policies and bindings from documents, refusing what the API server refuses.

Only the form is judged here; expressions are compiled elsewhere, and what a policy applies to is read by
`match_rules`. After `pkg/apis/admissionregistration/validation` of Kubernetes 1.36.
"""

from __future__ import annotations

import re
from typing import cast

from vapcheck.manifests.documents import Document
from vapcheck.manifests.objects import mapping_in
from vapcheck.policy.fields import Fields, Problems
from vapcheck.policy.match_rules import judge_object_name, read_match, selector
from vapcheck.policy.model import Binding, Expression, ParamRef, Policy, Validation, ValidationAction
from vapcheck.server import name_forms

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
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
_VALIDATION_FIELDS = ("expression", "message", "messageExpression", "reason")
_MAX_CONDITIONS = 64
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
    problems: Problems = []
    spec = Fields(document.body, "", problems).mapping("spec", _POLICY_FIELDS, required=True)
    match = read_match(spec, "matchConstraints", needs_rules=True)
    failure = spec.choice("failurePolicy", ("Fail", "Ignore"), "Fail")
    conditions = _conditions(spec)
    variables = _variables(spec)
    validations = tuple(map(_validation, spec.rows("validations", _VALIDATION_FIELDS)))
    audits = _audit_annotations(spec)
    if not validations and not audits:
        spec.say("validations", "validations or auditAnnotations need at least one item")
    policy = Policy(
        name=_name(document),
        document=document,
        match=match,
        conditions=conditions,
        variables=variables,
        validations=validations,
        audit_annotations=audits,
        fails_closed=failure != "Ignore",
        param_kind=_param_kind(spec),
        # Of another type they are refused with the rest of the metadata (`plausibility`).
        annotations={
            str(key): str(value)
            for key, value in mapping_in(document.body, "metadata", "annotations").items()
        },
    )
    return policy, problems


def read_binding(document: Document) -> tuple[Binding, Problems]:
    """The binding, as far as it can be understood, and everything that is wrong with its form."""
    problems: Problems = []
    spec = Fields(document.body, "", problems).mapping("spec", _BINDING_FIELDS, required=True)
    actions = spec.texts("validationActions", ("Deny", "Warn", "Audit"), unique=True)
    if not actions:
        spec.say("validationActions", "at least one of Deny, Warn, Audit is needed")
    if {"Deny", "Warn"} <= set(actions):
        spec.say("validationActions", "Deny and Warn exclude each other; use one of them")
    policy = spec.text("policyName", required=True)
    if policy.strip() and not name_forms.is_subdomain(policy):
        spec.say("policyName", f"{policy!r} is not a policy's name: {name_forms.SUBDOMAIN}")
    binding = Binding(
        name=_name(document),
        document=document,
        policy=policy,
        match=read_match(spec, "matchResources"),
        actions=cast("tuple[ValidationAction, ...]", actions),
        param_ref=_param_ref(spec),
    )
    return binding, problems


def _name(document: Document) -> str:
    return str(mapping_in(document.body, "metadata").get("name") or "")


def _named(spec: Fields, key: str, name: str, expression: str) -> list[tuple[Fields, Expression]]:
    """Rows of a name and an expression, such as variables."""
    found = []
    for row in spec.rows(key, (name, expression)):
        label, text = row.text(name, required=True), row.text(expression, required=True)
        found.append((row, Expression(text, row.path(expression), label)))
    return found


def _conditions(spec: Fields) -> tuple[Expression, ...]:
    rows = _named(spec, "matchConditions", "name", "expression")
    if len(rows) > _MAX_CONDITIONS:
        said = f"{len(rows)} are too many, {_MAX_CONDITIONS} are allowed; join some with &&"
        spec.say("matchConditions", said)
    for fields, row in rows:
        if row.name.strip() and not name_forms.is_label_key(row.name):
            fields.say("name", f"{row.name!r} is not a name: {name_forms.LABEL_KEY}")
    return _distinct(rows, "name")


def _variables(spec: Fields) -> tuple[Expression, ...]:
    rows = _named(spec, "variables", "name", "expression")
    for fields, row in rows:
        if row.name.strip() and (not _IDENTIFIER.match(row.name) or row.name in _RESERVED):
            fields.say("name", f"{row.name!r} is not a CEL identifier")
    return tuple(row for _, row in rows)


def _audit_annotations(spec: Fields) -> tuple[Expression, ...]:
    rows = _named(spec, "auditAnnotations", "key", "valueExpression")
    for fields, row in rows:
        # The server writes them down as `<policy>/<key>`, so that the key itself has no prefix.
        if row.name.strip() and ("/" in row.name or not name_forms.is_label_key(row.name)):
            said = f"{row.name!r} is not a key: letters, digits, '-', '_', '.', at most 63, no prefix"
            fields.say("key", said)
    return _distinct(rows, "key")


def _distinct(rows: list[tuple[Fields, Expression]], key: str) -> tuple[Expression, ...]:
    seen: set[str] = set()
    for fields, row in rows:
        if row.name and row.name in seen:
            fields.say(key, f"{row.name!r} appears twice; rename one")
        seen.add(row.name)
    return tuple(row for _, row in rows)


def _validation(fields: Fields) -> Validation:
    expression = fields.text("expression", required=True)
    message = fields.filled_text("message")
    if re.search(r"[\n\r]", message):
        fields.say("message", "must not contain line breaks")
    worded = None
    if fields.filled_text("messageExpression"):
        # As it is written, so that columns are those of the text.
        worded = Expression(fields.values["messageExpression"], fields.path("messageExpression"))
    return Validation(
        expression=Expression(expression, fields.path("expression")),
        message=message,
        message_expression=worded,
        reason=fields.choice("reason", _REASONS, "Invalid"),
    )


def _param_kind(spec: Fields) -> tuple[str, str] | None:
    if spec.values.get("paramKind") is None:
        return None
    fields = spec.mapping("paramKind", ("apiVersion", "kind"))
    api_version = fields.text("apiVersion", required=True)
    group, _, version = api_version.rpartition("/")
    if api_version.strip():
        if group and not name_forms.is_subdomain(group):
            fields.say("apiVersion", f"the group {group!r} is none: {name_forms.SUBDOMAIN}")
        if not name_forms.is_dns_label(version):
            fields.say("apiVersion", f"the version {version!r} is none: {name_forms.DNS_LABEL}")
    kind = fields.text("kind", required=True)
    if kind.strip() and not name_forms.is_dns_label(kind.lower()):
        said = f"{kind!r} is not a kind: letters, digits and '-', at most 63, a letter first"
        fields.say("kind", said)
    return f"{group}/{version}" if group else version, kind


def _param_ref(spec: Fields) -> ParamRef | None:
    if spec.values.get("paramRef") is None:
        return None
    known = ("name", "namespace", "selector", "parameterNotFoundAction")
    fields = spec.mapping("paramRef", known, required=True)
    name = fields.text("name")
    judge_object_name(fields, "name", name)
    selected = fields.values.get("selector") is not None
    if bool(name) == selected:
        fields.say("", "exactly one of name and selector is needed")
    action = fields.values.get("parameterNotFoundAction")
    if action is None:
        fields.say("parameterNotFoundAction", "is required; choose Allow or Deny")
    elif action not in ("Allow", "Deny"):
        fields.say("parameterNotFoundAction", f"{action!r} is none of Allow, Deny")
    return ParamRef(
        name=name,
        namespace=fields.text("namespace"),
        selector=selector(fields, "selector") if selected else None,
        deny_when_missing=action == "Deny",
    )
