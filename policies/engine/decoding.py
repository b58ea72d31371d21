"""What the server would not find in an object's kind: fields that it doesn't have, values of another type.

A server told to be strict (kubectl's default) refuses them; otherwise it drops such fields, and fails on such
values. Asked only about objects in which `canonical_form` met something odd. Of a Secret no value is shown.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from policies.engine.schema import Schema
from policies.engine.secret_kinds import is_secret, unshown

_Show = Callable[[Any], str]

_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("text", (str,)),
    "integer": ("a whole number", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
}


@dataclass(frozen=True, slots=True)
class Doubt:
    """One field that the server will not take as it is written."""

    path: str
    message: str
    hint: str
    fatal: bool
    """Whether every server refuses the object, not only a strict one."""


def doubts_about(value: Any, schema: Schema, path: str = "") -> list[Doubt]:
    """Every field of `value` that `schema` doesn't have or has with another type."""
    secret = isinstance(value, dict) and is_secret(value)
    return list(_look(value, schema, path, unshown if secret else _shown))


def _look(value: Any, schema: Schema, path: str, show: _Show) -> Iterator[Doubt]:
    if value is None or schema.int_or_string or schema.quantity:
        return
    if schema.items is not None:
        yield from _expect(value, list, "a list", path, show)
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _look(item, schema.items, f"{path}[{index}]", show)
    elif schema.values is not None or schema.properties:
        yield from _expect(value, dict, "an object", path, show)
        if isinstance(value, dict):
            yield from _look_into(value, schema, path, show)
    elif schema.type in _TYPES and schema.name == "":
        words, types = _TYPES[schema.type]
        if not isinstance(value, types) or (isinstance(value, bool) and schema.type != "boolean"):
            yield Doubt(path, f"{show(value)} where {words} belongs", f"write {words}", True)


def _look_into(value: dict[str, Any], schema: Schema, path: str, show: _Show) -> Iterator[Doubt]:
    for key, item in value.items():
        known = schema.values if schema.values is not None else schema.properties.get(key)
        where = f"{path}.{key}" if path else key
        if known is not None:
            place = where if key.replace("_", "").isalnum() else f'{path}["{key}"]'
            yield from _look(item, known, place, show)
        elif not schema.preserve_unknown:
            near = difflib.get_close_matches(key, list(schema.properties), 1)
            hint = f"did you mean {near[0]}?" if near else "remove it"
            yield Doubt(where, f"unknown field {key!r}; the server drops it", hint, False)


def _expect(value: Any, wanted: type, words: str, path: str, show: _Show) -> Iterator[Doubt]:
    if not isinstance(value, wanted):
        yield Doubt(path, f"{show(value)} where {words} belongs", f"write {words}", True)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."
