"""Fields that an object's kind doesn't have, and values that the server can't read.

With strict field validation (kubectl's default) the server refuses them; otherwise it drops such fields, and
fails on such values. Called only for objects in which `canonical_form` found something unexpected. Values are
shown as YAML has them, except those of Secrets.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from vapcheck.cel.libraries.quantities import is_quantity
from vapcheck.manifests.secret_kinds import is_secret, unshown
from vapcheck.server import canonical_text
from vapcheck.server.canonical_form import WHOLE_NUMBERS
from vapcheck.server.schema import Schema

_Show = Callable[[Any], str]
_Expected = tuple[str, str]
"""What belongs in a place, and how to write it."""
_TEXT, _LIST, _OBJECT = ("text", "write text"), ("a list", "write a list"), ("an object", "write an object")
_QUOTED = ("text", "quote it")
_WHOLE, _NUMBER = ("a whole number", "write a whole number"), ("a number", "write a number")
_BOOLEAN = ("true or false", "write true or false")
_PORT = ("a whole number or text", "write one of them")
_TIME = ("a time", "write it as 2026-01-31T08:00:00Z")
_MICRO_TIME = ("a time with six decimals", "write it as 2026-01-31T08:00:00.000000Z")
_BYTES = (
    "base64",
    "encode it; unencoded text belongs in stringData of a Secret, or in data of a ConfigMap",
)
_QUANTITY = "write a number, with a unit if needed, such as 500m, 2G or 1.5Gi"
_MEANT = re.compile(r"\s*([+-]?[0-9.]+)\s*([kKMGTPE])(i?)[bB]?\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Doubt:
    """One field that the server will not take as it is written."""

    path: str
    message: str
    remediation: str
    fatal: bool
    """Whether every server refuses the object, not only a strict one."""


def doubts_about(value: Any, schema: Schema) -> list[Doubt]:
    """Every field of `value` that `schema` doesn't have, or has with other values."""
    return list(_inspect(value, schema, "", _showing(value), False))


def doubts_about_metadata(body: dict[str, Any], schema: Schema) -> list[Doubt]:
    """The same of the metadata alone, for an object of whose kind no more is known."""
    return list(_inspect(body["metadata"], schema, "metadata", _showing(body), False))


def _showing(body: Any) -> _Show:
    return unshown if isinstance(body, dict) and is_secret(body) else _shown


def _inspect(value: Any, schema: Schema, path: str, show: _Show, builtin: bool) -> Iterator[Doubt]:
    """`builtin`: it is read into a type of Kubernetes itself. These types have names."""
    if value is None:
        return
    builtin = builtin or schema.name != ""
    if schema.items is not None:
        if not isinstance(value, list):
            yield _wrong(value, _LIST, path, show)
            return
        for index, item in enumerate(value):
            yield from _inspect(item, schema.items, f"{path}[{index}]", show, builtin)
    elif schema.values is not None or schema.properties:
        if not isinstance(value, dict):
            yield _wrong(value, _OBJECT, path, show)
            return
        yield from _inspect_fields(value, schema, path, show, builtin)
    elif not schema.name:
        expected = _expected(value, schema, builtin)
        if expected:
            yield _wrong(value, expected, path, show)


def _inspect_fields(
    value: dict[str, Any], schema: Schema, path: str, show: _Show, builtin: bool
) -> Iterator[Doubt]:
    for key, item in value.items():
        known = schema.values if schema.values is not None else schema.properties.get(key)
        where = f"{path}.{key}" if path else key
        if known is not None:
            place = where if key.replace("_", "").isalnum() else f'{path}["{key}"]'
            yield from _inspect(item, known, place, show, builtin)
        elif not schema.preserve_unknown:
            near = difflib.get_close_matches(key, list(schema.properties), 1)
            remediation = f"did you mean {near[0]}?" if near else "remove it"
            yield Doubt(where, f"unknown field {key!r}; the server drops it", remediation, False)


def _wrong(value: Any, expected: _Expected, path: str, show: _Show) -> Doubt:
    return Doubt(path, f"{show(value)} instead of {expected[0]}", expected[1], True)


def _expected(value: Any, schema: Schema, builtin: bool) -> _Expected | None:
    """What belongs where `value` is; None where it may stay."""
    if schema.quantity:
        text = canonical_text.quantity_text(value)
        return None if text is not None and is_quantity(text) else ("a quantity", _quantity_hint(value))
    if schema.int_or_string:
        return None if isinstance(value, str) else _whole_number(value, schema.format, _PORT)
    if schema.type == "integer":
        return _whole_number(value, schema.format, _WHOLE)
    if schema.type == "number":
        return None if isinstance(value, int | float) and not isinstance(value, bool) else _NUMBER
    if schema.type == "boolean":
        return None if isinstance(value, bool) else _BOOLEAN
    return _text(value, schema.format if builtin else "") if schema.type == "string" else None


def _whole_number(value: Any, format: str, otherwise: _Expected) -> _Expected | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return otherwise
    low, high = WHOLE_NUMBERS["int32" if format == "int32" else ""]
    if low <= value <= high:
        return None
    return f"a whole number from {low:,} to {high:,}", "write one of them"


def _text(value: Any, format: str) -> _Expected | None:
    if format == "date-time":
        return _TIME if canonical_text.time(value) is None else None
    if format == "micro-time":
        return _MICRO_TIME if canonical_text.micro_time(value) is None else None
    if not isinstance(value, str):
        return _TEXT if isinstance(value, list | dict) else _QUOTED
    return _BYTES if format == "byte" and canonical_text.base64_text(value) is None else None


def _quantity_hint(value: Any) -> str:
    """How to write it; of 1GB and the like both things that can be meant."""
    match = _MEANT.fullmatch(value) if isinstance(value, str) else None
    if match is None or not is_quantity(match[1]):
        return _QUANTITY
    number, unit = match[1], match[2]
    binary = f"{number}{unit.upper()}i"
    return f"write {binary}" if match[3] else f"write {number}{unit.replace('K', 'k')} or {binary}"


def _shown(value: Any) -> str:
    """As YAML has it, which JSON is too."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) < 60 else text[:57] + "..."
