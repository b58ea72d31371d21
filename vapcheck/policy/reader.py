"""Reads policies and bindings from documents, refusing what the API server refuses.

Only the form is judged here; expressions are compiled elsewhere, and what a policy applies to is read by
`match_rules`. After `pkg/apis/admissionregistration/validation` of Kubernetes 1.36.
"""

from __future__ import annotations

import re
from typing import Any, cast

from vapcheck.manifests.documents import Document
from vapcheck.policy.fields import FieldReader, Problems
from vapcheck.policy.match_rules import read_match, selector
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
    reader = FieldReader()
    spec = reader.mapping(document.body, "spec", "spec", _POLICY_FIELDS, required=True)
    match = read_match(reader, spec, "matchConstraints", needs_rules=True)
    failure = reader.choice(spec, "failurePolicy", "spec.failurePolicy", ("Fail", "Ignore"), "Fail")
    conditions = _conditions(reader, spec)
    variables = _variables(reader, spec)
    validations = tuple(
        _validation(reader, row, f"spec.validations[{index}]")
        for index, row in enumerate(reader.rows(spec, "validations", "spec.validations"))
    )
    audits = _audit_annotations(reader, spec)
    if not validations and not audits:
        reader.say("spec.validations", "validations or auditAnnotations need at least one item")
    annotations = _metadata(document).get("annotations")
    policy = Policy(
        name=_name(document),
        document=document,
        match=match,
        conditions=conditions,
        variables=variables,
        validations=validations,
        audit_annotations=audits,
        fails_closed=failure != "Ignore",
        param_kind=_param_kind(reader, spec),
        # Of another type they are refused with the rest of the metadata (`plausibility`).
        annotations={str(k): str(v) for k, v in annotations.items()} if isinstance(annotations, dict) else {},
    )
    return policy, reader.problems


def read_binding(document: Document) -> tuple[Binding, Problems]:
    """The binding, as far as it can be understood, and everything that is wrong with its form."""
    reader = FieldReader()
    spec = reader.mapping(document.body, "spec", "spec", _BINDING_FIELDS, required=True)
    path = "spec.validationActions"
    actions = reader.texts(spec, "validationActions", path, ("Deny", "Warn", "Audit"), unique=True)
    if not actions:
        reader.say(path, "at least one of Deny, Warn, Audit is needed")
    if {"Deny", "Warn"} <= set(actions):
        reader.say(path, "Deny and Warn exclude each other; choose one")
    policy = reader.text(spec, "policyName", "spec.policyName", required=True)
    if policy.strip() and not name_forms.is_subdomain(policy):
        reader.say("spec.policyName", f"{policy!r} is not a policy's name: {name_forms.SUBDOMAIN}")
    binding = Binding(
        name=_name(document),
        document=document,
        policy=policy,
        match=read_match(reader, spec, "matchResources"),
        actions=cast("tuple[ValidationAction, ...]", actions),
        param_ref=_param_ref(reader, spec),
    )
    return binding, reader.problems


def _metadata(document: Document) -> dict[str, Any]:
    found = document.body.get("metadata")
    return found if isinstance(found, dict) else {}


def _name(document: Document) -> str:
    return str(_metadata(document).get("name") or "")


def _named(
    reader: FieldReader, spec: dict[str, Any], key: str, name: str, expression: str
) -> list[tuple[str, Expression]]:
    """Rows of a name and an expression, such as variables; with the place of each name."""
    found = []
    for index, row in enumerate(reader.rows(spec, key, f"spec.{key}")):
        path = f"spec.{key}[{index}]"
        fields = reader.mapping({"row": row}, "row", path, (name, expression), required=True)
        label = reader.text(fields, name, f"{path}.{name}", required=True)
        text = reader.text(fields, expression, f"{path}.{expression}", required=True)
        found.append((f"{path}.{name}", Expression(text, f"{path}.{expression}", label)))
    return found


def _conditions(reader: FieldReader, spec: dict[str, Any]) -> tuple[Expression, ...]:
    rows = _named(reader, spec, "matchConditions", "name", "expression")
    if len(rows) > _MAX_CONDITIONS:
        said = f"{len(rows)} are too many, {_MAX_CONDITIONS} are allowed; join some by &&"
        reader.say("spec.matchConditions", said)
    for place, row in rows:
        if row.name.strip() and not name_forms.is_label_key(row.name):
            reader.say(place, f"{row.name!r} is not a name: {name_forms.LABEL_KEY}")
    return _distinct(reader, rows)


def _variables(reader: FieldReader, spec: dict[str, Any]) -> tuple[Expression, ...]:
    rows = _named(reader, spec, "variables", "name", "expression")
    for place, row in rows:
        if row.name.strip() and (not _IDENTIFIER.match(row.name) or row.name in _RESERVED):
            reader.say(place, f"{row.name!r} is not a CEL identifier")
    return tuple(row for _, row in rows)


def _audit_annotations(reader: FieldReader, spec: dict[str, Any]) -> tuple[Expression, ...]:
    rows = _named(reader, spec, "auditAnnotations", "key", "valueExpression")
    for place, row in rows:
        # The server writes them down as `<policy>/<key>`, so that the key itself has no prefix.
        if row.name.strip() and ("/" in row.name or not name_forms.is_label_key(row.name)):
            reader.say(
                place, f"{row.name!r} is not a key: letters, digits, '-', '_', '.', at most 63, no prefix"
            )
    return _distinct(reader, rows)


def _distinct(reader: FieldReader, rows: list[tuple[str, Expression]]) -> tuple[Expression, ...]:
    seen: set[str] = set()
    for place, row in rows:
        if row.name and row.name in seen:
            reader.say(place, f"{row.name!r} is given twice; rename one")
        seen.add(row.name)
    return tuple(row for _, row in rows)


def _validation(reader: FieldReader, row: Any, path: str) -> Validation:
    known = ("expression", "message", "messageExpression", "reason")
    fields = reader.mapping({"row": row}, "row", path, known, required=True)
    expression = reader.text(fields, "expression", f"{path}.expression", required=True)
    message = reader.filled_text(fields, "message", f"{path}.message")
    if re.search(r"[\n\r]", message):
        reader.say(f"{path}.message", "must not contain line breaks")
    place = f"{path}.messageExpression"
    worded = reader.filled_text(fields, "messageExpression", place)
    return Validation(
        expression=Expression(expression, f"{path}.expression"),
        message=message,
        # As it is written, so that columns are those of the text.
        message_expression=Expression(fields["messageExpression"], place) if worded else None,
        reason=reader.choice(fields, "reason", f"{path}.reason", _REASONS, "Invalid"),
    )


def _param_kind(reader: FieldReader, spec: dict[str, Any]) -> tuple[str, str] | None:
    if spec.get("paramKind") is None:
        return None
    path = "spec.paramKind"
    fields = reader.mapping(spec, "paramKind", path, ("apiVersion", "kind"))
    api_version = reader.text(fields, "apiVersion", f"{path}.apiVersion", required=True)
    group, _, version = api_version.rpartition("/")
    if api_version.strip():
        if group and not name_forms.is_subdomain(group):
            reader.say(f"{path}.apiVersion", f"the group {group!r} is none: {name_forms.SUBDOMAIN}")
        if not name_forms.is_dns_label(version):
            reader.say(f"{path}.apiVersion", f"the version {version!r} is none: {name_forms.DNS_LABEL}")
    kind = reader.text(fields, "kind", f"{path}.kind", required=True)
    if kind.strip() and not name_forms.is_dns_label(kind.lower()):
        reader.say(
            f"{path}.kind", f"{kind!r} is not a kind: letters, digits and '-', at most 63, a letter first"
        )
    return f"{group}/{version}" if group else version, kind


def _param_ref(reader: FieldReader, spec: dict[str, Any]) -> ParamRef | None:
    path = "spec.paramRef"
    if spec.get("paramRef") is None:
        return None
    known = ("name", "namespace", "selector", "parameterNotFoundAction")
    fields = reader.mapping(spec, "paramRef", path, known, required=True)
    name = reader.text(fields, "name", f"{path}.name")
    if not name_forms.is_path_segment(name):
        said = f"{name!r} is not an object's name: neither '.' nor '..', without '/' and '%'"
        reader.say(f"{path}.name", said)
    selected = fields.get("selector") is not None
    if bool(name) == selected:
        reader.say(path, "exactly one of name and selector is needed")
    action = fields.get("parameterNotFoundAction")
    if action not in ("Allow", "Deny"):
        wrong = (
            "is required; choose Allow or Deny" if action is None else f"{action!r} is none of Allow, Deny"
        )
        reader.say(f"{path}.parameterNotFoundAction", wrong)
    return ParamRef(
        name=name,
        namespace=reader.text(fields, "namespace", f"{path}.namespace"),
        selector=selector(reader, fields, "selector", path) if selected else None,
        deny_when_missing=action == "Deny",
    )
