"""Pulumi's wire format: google.protobuf.Struct to plain values and back, secrets and unknowns included.

Kubernetes has integers, Struct has doubles only, so whole numbers come back as int. The signatures are
those of the Pulumi engine (sdk/go/common/resource/properties.go and plugin/rpc.go, v3.259).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import struct_pb2

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a mark, the same for everybody
UNKNOWNS = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)
"""Strings that stand for a value (bool, number, string, array, asset, archive, object) known after `up`."""


class Secret:
    """A value that Pulumi must encrypt in its state."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def from_struct(struct: struct_pb2.Struct, keep_secrets: bool = False) -> dict[str, Any]:
    """Plain values of a Struct. Secrets are unwrapped unless `keep_secrets`."""
    return {key: _from_value(value, keep_secrets) for key, value in struct.fields.items()}


def _from_value(value: struct_pb2.Value, keep_secrets: bool) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        return [_from_value(item, keep_secrets) for item in value.list_value.values]
    if kind == "struct_value":
        fields = value.struct_value.fields
        if SIGNATURE in fields and fields[SIGNATURE].string_value == SECRET:
            inner = _from_value(fields["value"], keep_secrets)
            return Secret(inner) if keep_secrets else inner
        return from_struct(value.struct_value, keep_secrets)
    return None


def to_struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    """The Struct of plain values, Secret included."""
    struct = struct_pb2.Struct()
    for key, value in values.items():
        _set(struct.fields[key], value)
    return struct


def _set(target: struct_pb2.Value, value: Any) -> None:
    if isinstance(value, Secret):
        _set(target, {SIGNATURE: SECRET, "value": value.value})
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int | float):
        target.number_value = value
    elif isinstance(value, str):
        target.string_value = value
    elif isinstance(value, Mapping):
        target.struct_value.SetInParent()
        for key, item in value.items():
            _set(target.struct_value.fields[key], item)
    elif isinstance(value, list | tuple):
        target.list_value.SetInParent()
        for item in value:
            _set(target.list_value.values.add(), item)
    else:
        target.null_value = struct_pb2.NULL_VALUE


def has_unknowns(value: Any) -> bool:
    """Whether any part of `value` is known only after `up`."""
    if isinstance(value, Secret):
        return has_unknowns(value.value)
    if isinstance(value, Mapping):
        return any(has_unknowns(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknowns(item) for item in value)
    return isinstance(value, str) and value in UNKNOWNS


def mark_secrets(live: Any, inputs: Any) -> Any:
    """`live` with every part secret that is secret in `inputs`; lists become secret as a whole."""
    if isinstance(inputs, Secret):
        return live if isinstance(live, Secret) else Secret(live)
    if isinstance(inputs, Mapping) and isinstance(live, Mapping):
        return {key: mark_secrets(item, inputs[key]) if key in inputs else item for key, item in live.items()}
    if isinstance(inputs, list) and _holds_secret(inputs):
        return Secret(live)
    return live


def _holds_secret(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_secret(item) for item in value.values())
    if isinstance(value, list):
        return any(_holds_secret(item) for item in value)
    return isinstance(value, Secret)
