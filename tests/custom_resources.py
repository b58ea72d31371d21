"""Judges a new custom resource by its CRD, offline, as the API server does when it creates the object.

After apiextensions-apiserver 0.36, pkg/apiserver: defaults first (schema/defaulting), then the schema
(validation), fields that it doesn't have refused (fieldValidation Strict), then the rules in CEL
(schema/cel). It knows the keywords that our CRDs use and must not pass over any other: it fails then, so that
no CRD is judged by half. Left out are status and rules that compare with oldSelf, as nothing new meets them,
and what rules cost.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jsonschema

from vapcheck.cel.environment import Environment
from vapcheck.cel.errors import EvaluationError
from vapcheck.cel.program import Program, Scope
from vapcheck.server.name_forms import is_label_key, is_label_value, is_subdomain

Data = dict[str, Any]

_SAME_IN_JSON_SCHEMA = frozenset(
    {"type", "enum", "required", "anyOf", "minimum", "maximum"}
    | {"minLength", "maxLength", "minItems", "maxItems", "maxProperties"}
)
_WITHOUT_EFFECT = frozenset(("description", "default", "x-kubernetes-map-type", "x-kubernetes-validations"))
"""On the shape of a new object; defaults and rules are applied by themselves."""
_FORMATS = {
    "int32": {"minimum": -(2**31), "maximum": 2**31 - 1},
    "int64": {"minimum": -(2**63), "maximum": 2**63 - 1},
    "date-time": {"pattern": r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\Z"},
}
_ENVIRONMENT = Environment({"self": "dyn"})
_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    # JSON Schema takes 1.0 for an integer; Go reads it as a float.
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


@dataclass(frozen=True)
class Definition:
    """One version of a CRD."""

    schema: Data
    shape: Any
    """A validator of JSON Schema."""

    def problems(self, body: Data) -> list[str]:
        """Why the server would not create the object, each with the field; nothing where it would."""
        seen = _with_defaults(self.schema, copy.deepcopy(body))
        found = [
            f"{_path(error.absolute_path)}: {error.message}" for error in self.shape.iter_errors(seen)
        ] + list(_metadata_problems(seen.get("metadata") or {}))
        return found or list(_broken_rules(self.schema, seen, ()))


def definitions(crds: Iterable[Data]) -> dict[tuple[str, str], Definition]:
    """By apiVersion and kind the versions that the CRDs serve."""
    found = {}
    for crd in crds:
        spec = crd["spec"]
        for version in spec["versions"]:
            if version["served"]:
                schema = version["schema"]["openAPIV3Schema"]
                properties = {name: part for name, part in schema["properties"].items() if name != "status"}
                schema = {**schema, "properties": properties}
                shape = _json_schema({**schema, "properties": properties | {"metadata": _METADATA}})
                key = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
                found[key] = Definition(schema, _Validator(shape))
    return found


_METADATA: Data = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
"""The fields of metadata that are for an author to write."""


def _json_schema(schema: Data) -> Data:
    """A structural schema in JSON Schema's words."""
    made: Data = {}
    for keyword, value in schema.items():
        if keyword in _SAME_IN_JSON_SCHEMA:
            made[keyword] = [_json_schema(part) for part in value] if keyword == "anyOf" else value
        elif keyword == "properties":
            made[keyword] = {name: _json_schema(part) for name, part in value.items()}
        elif keyword == "items":
            made[keyword] = _json_schema(value)
        elif keyword == "additionalProperties":
            made[keyword] = value if isinstance(value, bool) else _json_schema(value)
        elif keyword == "pattern":
            # RE2 knows ASCII digits only, and $ is the very end of the text.
            made[keyword] = "(?a)" + value.replace("$", r"\Z")
        elif keyword == "format":
            made["allOf"] = [_FORMATS[value]]
        elif keyword == "x-kubernetes-list-type" and value in ("atomic", "set"):
            made["uniqueItems"] = value == "set"
        elif keyword == "x-kubernetes-int-or-string" and value:
            made["type"] = ["integer", "string"]
        elif keyword == "x-kubernetes-preserve-unknown-fields" and value:
            made.setdefault("additionalProperties", True)
        elif keyword not in _WITHOUT_EFFECT:
            raise NotImplementedError(f"{keyword}: {value!r}")
    if made.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


def _with_defaults(schema: Data, value: Any) -> Any:
    if isinstance(value, dict):
        for name, part in (schema.get("properties") or {}).items():
            if name not in value and "default" in part:
                value[name] = copy.deepcopy(part["default"])
    for _, part, item in _parts(schema, value):
        _with_defaults(part, item)
    return value


def _parts(schema: Data, value: Any) -> Iterator[tuple[Any, Data, Any]]:
    """What is inside of `value`: key or index, schema, value."""
    if isinstance(value, dict):
        others = schema.get("additionalProperties")
        for key, item in value.items():
            part = (schema.get("properties") or {}).get(key, others)
            if isinstance(part, dict):
                yield key, part, item
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield index, schema["items"], item


@functools.cache
def _program(rule: str) -> Program:
    return _ENVIRONMENT.compile(rule, expects=("bool",))


def _broken_rules(schema: Data, value: Any, path: tuple[Any, ...]) -> Iterator[str]:
    for row in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" in row["rule"]:
            continue
        try:
            if _program(row["rule"]).evaluate(Scope({"self": value})) is not True:
                yield f"{_path(path)}: {row.get('message') or 'failed rule: ' + row['rule']}"
        except EvaluationError as error:
            yield f"{_path(path)}: {error}"
    for key, part, item in _parts(schema, value):
        yield from _broken_rules(part, item, (*path, key))


def _metadata_problems(metadata: Data) -> Iterator[str]:
    """What the server asks of names and labels of any object (apimachinery 0.36, api/validation)."""
    if not is_subdomain(str(metadata.get("name"))):
        yield f"metadata.name: {metadata.get('name')!r} is not a name"
    for key, value in (metadata.get("labels") or {}).items():
        if not (is_label_key(key) and is_label_value(str(value))):
            yield f"metadata.labels: {key!r}: {value!r} is not a label"


def _path(parts: Iterable[Any]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.removeprefix(".") or "the object"
