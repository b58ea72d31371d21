"""Objects as the API server writes them after reading them into its types.

Fields that a kind doesn't have go, null and empty values go or stay as Go's encoder has it, quantities and
times get their canonical form, and what is missing gets its default (admission_defaults.json). Fields go too
whose feature gate is off in the cluster's minor. Custom resources follow the schema of their CRD instead.
What depends on more than one field is `server_defaults`. Converters are made from schemas once, field by
field as fields occur; inputs are never changed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from vapcheck.server import canonical_text
from vapcheck.server.schema import ABSENT, Schema, builtin
from vapcheck.server.server_defaults import HOOKS, Hook, stateful_strategy, without_image_volumes

Convert = Callable[[Any], Any]
MISTYPED = (TypeError, AttributeError, KeyError, ValueError)
"""What filling in an object raises when a part has the wrong type, which no server accepts (`decoding`)."""
_SCALARS: dict[str, type] = {"string": str, "integer": int, "boolean": bool}
WHOLE_NUMBERS = {"int32": (-(2**31), 2**31 - 1), "": (-(2**63), 2**63 - 1)}
"""Least and greatest, by the format of an integer."""
_ZERO: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}


class Doubts:
    """Whether anything was met that the type doesn't have, since it was last reset. `decoding`
    finds out more, which most objects don't need."""

    def __init__(self) -> None:
        self.any = False


DOUBTS = Doubts()


@functools.cache
def _defaults(minor: str) -> dict[str, dict[str, Any]]:
    """Defaults by definition: those of all minors, and those that this one has beside them."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / "admission_defaults.json").read_bytes())
    more = found.pop("only", {}).get(minor, {})
    return {name: found.get(name, {}) | more.get(name, {}) for name in found | more}


def converter(schema: Schema) -> Convert:
    """What turns an object of this schema into the form that the server gives it."""
    if schema.name:
        return _builtin_object(_short(schema.name), schema.minor)
    return _custom(schema)


def _short(name: str) -> str:
    """The name in the data files: core.v1.PodSpec."""
    return ".".join(name.split(".")[-3:])


@functools.cache
def _builtin_object(name: str, minor: str) -> Convert:
    """The converter of a definition of Kubernetes itself."""
    properties = builtin(name, minor).properties
    fields: dict[str, tuple[bool, Convert | None, type | None] | None] = {}
    always = [(key, zero) for key in properties if (zero := _when_missing(properties[key])) is not ABSENT]
    defaults = [
        (key, value, isinstance(value, dict | list), properties[key].presence == "!")
        for key, value in _defaults(minor).get(name, {}).items()
        if key in properties and not properties[key].dropped
    ]
    partial = [(key, value) for key, value, _, _ in defaults if value and isinstance(value, dict)]
    hook = _hook(name, minor)
    doubts = DOUBTS

    def field(key: str) -> tuple[bool, Convert | None, type | None] | None:
        schema = properties.get(key)
        if schema is not None:
            function = _of_type(schema) or _number(schema)
            # Of a volume more than the field goes: see the hook of PodSpec.
            dropped = schema.dropped and name != "core.v1.Volume"
            if dropped:
                function = _dropping(function)
            keep = schema.presence != "" and not dropped
            fields[key] = keep, function, None if function else _SCALARS.get(schema.type)
        else:
            fields[key] = None
        return fields[key]

    def convert(value: Any) -> Any:
        if value.__class__ is not dict:
            doubts.any = True
            return value
        out = {}
        for key, item in value.items():
            if item is None:
                if key not in properties:
                    doubts.any = True
                continue
            known = fields[key] if key in fields else field(key)
            if known is None:
                doubts.any = True
                continue
            keep, function, expected = known
            if function is not None:
                item = function(item)
            elif item.__class__ is not expected and expected is not None:
                doubts.any = True
            if item or keep:
                out[key] = item
        for key, default, compound, if_empty in defaults:
            if key not in out or (if_empty and not out[key]):
                out[key] = deepcopy(default) if compound else default
        for key, default in partial:
            if out[key].__class__ is dict:
                out[key] = deepcopy(default) | out[key]
        for key, zero in always:
            if key not in out:
                out[key] = zero() if callable(zero) else zero
        if hook is not None:
            try:
                hook(out)
            except MISTYPED:
                doubts.any = True
        return out

    return convert


def _hook(name: str, minor: str) -> Hook | None:
    """What sets the fields of a definition that depend on others of it, in that minor."""
    if name == "core.v1.PodSpec" and builtin("core.v1.Volume", minor).properties["image"].dropped:
        return without_image_volumes
    if name == "apps.v1.StatefulSetUpdateStrategy":
        rolling = _builtin_object("apps.v1.RollingUpdateStatefulSetStrategy", minor)
        return functools.partial(stateful_strategy, rolling=rolling)
    return HOOKS.get(name)


def _dropping(function: Convert | None) -> Convert:
    """Reads a value, for doubts about it, and makes nothing of it."""

    def convert(value: Any) -> None:
        if function is not None:
            function(value)

    return convert


def _when_missing(schema: Schema) -> Any:
    """What the server writes for a field that isn't given: a value, a function that makes it, or ABSENT."""
    if schema.presence == "*":
        return None
    if schema.presence != "!":
        return ABSENT
    if schema.quantity:
        return "0"
    if schema.int_or_string:
        return 0
    if schema.name:
        make = _builtin_object(_short(schema.name), schema.minor)
        return lambda: make({})
    return _ZERO.get(schema.type)


def _of_type(schema: Schema) -> Convert | None:
    """The converter of a field's value; None for one that stays as it is."""
    if schema.quantity:
        return _read_by(canonical_text.read_quantity)
    if schema.int_or_string:
        return _int_or_string
    if schema.type == "string":
        read = _STRINGS.get(schema.format)
        return _read_by(read) if read else None
    if schema.items is not None:
        return _list(schema.items)
    if schema.values is not None:
        return _map(schema.values)
    if schema.name:
        return _builtin_object(_short(schema.name), schema.minor)
    return None


_STRINGS: dict[str, Callable[[Any], str | None]] = {
    "date-time": canonical_text.time,
    "micro-time": canonical_text.micro_time,
    "byte": canonical_text.base64_text,
}


def _read_by(read: Callable[[Any], str | None]) -> Convert:
    doubts = DOUBTS

    def convert(value: Any) -> Any:
        found = read(value)
        if found is None:
            doubts.any = True
            return value
        return found

    return convert


def _int_or_string(value: Any) -> Any:
    if value.__class__ is not str:
        _int32(value)
    return value


def _whole_number(low: int, high: int) -> Convert:
    doubts = DOUBTS

    def convert(value: Any) -> Any:
        if value.__class__ is not int or not low <= value <= high:
            doubts.any = True
        return value

    return convert


_int32 = _whole_number(*WHOLE_NUMBERS["int32"])
_int64 = _whole_number(*WHOLE_NUMBERS[""])


def _number(schema: Schema) -> Convert | None:
    """Reads a field's number without changing it; None for a field that is not a number."""
    if schema.type == "integer":
        return _int32 if schema.format == "int32" else _int64
    return _double if schema.type == "number" else None


def _double(value: Any) -> Any:
    if value.__class__ is not float:
        _int64(value)
    return value


def _list(items: Schema) -> Convert:
    inner, zero = _of_type(items), _ZERO.get(items.type)
    expected, read_number = _SCALARS.get(items.type), _number(items)
    doubts = DOUBTS

    def convert(value: Any) -> Any:
        if value.__class__ is not list:
            doubts.any = True
            return value
        if inner is not None:
            return [inner({} if item is None and zero is None else item) for item in value]
        if expected is not None:
            for item in value:
                if item.__class__ is not expected:
                    doubts.any = True
                    return [zero if each is None else each for each in value]
                if read_number is not None:
                    read_number(item)
        return value

    return convert


def _map(values: Schema) -> Convert:
    inner, zero = _of_type(values), _ZERO.get(values.type)
    if values.quantity:
        inner = _read_by(functools.partial(canonical_text.read_quantity, milli=True))
    expected = _SCALARS.get(values.type)
    doubts = DOUBTS

    def convert(value: Any) -> Any:
        if value.__class__ is not dict:
            doubts.any = True
            return value
        if inner is not None:
            return {key: inner(item) for key, item in value.items()}
        if expected is not None:
            for item in value.values():
                if item.__class__ is not expected:
                    doubts.any = True
                    return {key: zero if item is None else item for key, item in value.items()}
        return value

    return convert


def _custom(schema: Schema) -> Convert:
    """The converter of a part of a custom resource: prunes what its CRD doesn't name, puts in defaults."""
    if schema.items is not None:
        item_of = _custom(schema.items)
        return lambda value: [item_of(item) for item in value] if value.__class__ is list else value
    if schema.values is not None:
        value_of = _custom(schema.values)
        return lambda value: (
            {key: value_of(item) for key, item in value.items()} if value.__class__ is dict else value
        )
    if not schema.properties and (schema.preserve_unknown or schema.type != "object"):
        return lambda value: value
    return _custom_object(schema)


def _custom_object(schema: Schema) -> Convert:
    properties = schema.properties
    inner: dict[str, Convert] = {}
    defaults = [(key, part.default) for key in properties if (part := properties[key]).default is not ABSENT]
    doubts = DOUBTS

    def part_of(key: str) -> Convert:
        part = properties[key]
        inner[key] = converter(part) if key == "metadata" else _custom(part)
        return inner[key]

    def convert(value: Any) -> Any:
        if value.__class__ is not dict:
            return value
        out = {}
        for key, item in value.items():
            if key not in properties:
                if schema.preserve_unknown:
                    out[key] = item
                else:
                    doubts.any = True
            elif item is not None or properties[key].nullable or properties[key].default is ABSENT:
                out[key] = None if item is None else (inner.get(key) or part_of(key))(item)
        for key, default in defaults:
            if key not in out:
                out[key] = (inner.get(key) or part_of(key))(deepcopy(default))
        return out

    return convert
