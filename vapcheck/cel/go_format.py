"""How Go prints values in texts and messages (%v), where Python prints them otherwise."""

from __future__ import annotations

from typing import Any

from vapcheck.cel.times import text
from vapcheck.cel.values import BoolKey, Duration, Optional, Timestamp, TypeValue, Uint, kind
from vapcheck.go_text import double_g

_NATIVE_NAMES = {
    "string": "types.String",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "bool": "types.Bool",
    "bytes": "types.Bytes",
    "null_type": "types.Null",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
    "optional_type": "*types.Optional",
    "type": "*types.Type",
}


def native_name(value: Any) -> str:
    """The name of the class that holds a value in cel-go, which some messages show."""
    name = kind(value)
    return _NATIVE_NAMES.get(name, f"*{name}")


def verb_v(value: Any) -> str:
    """A CEL value as Go's %v prints it in error texts."""
    if value is None:
        return "NULL_VALUE"
    if isinstance(value, BoolKey):
        return verb_v(value.value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_g(value)
    if isinstance(value, (int, Uint)):
        return str(int(value))
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return "[" + " ".join(map(str, value)) + "]"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(verb_v, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{verb_v(key)}: {verb_v(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, Optional):
        return f"optional({verb_v(value.value)})" if value.present else "optional.none()"
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, (Duration, Timestamp)):
        return text(value)
    return str(value)
