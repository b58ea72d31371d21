"""Pulumi's wire format: google.protobuf.Struct to plain values and back.

Kubernetes has integers, Struct has doubles only, so whole numbers come back as int. There are no secrets (the
provider does not accept them, so the engine marks them itself), and nothing that is known only after `up`:
no input of the program is another resource's output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import struct_pb2


def from_struct(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Plain values of a Struct."""
    return {key: _from_value(value) for key, value in struct.fields.items()}


def _from_value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        return [_from_value(item) for item in value.list_value.values]
    if kind == "struct_value":
        return from_struct(value.struct_value)
    return None


def to_struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    """The Struct of plain values."""
    struct = struct_pb2.Struct()
    struct.update(values)
    return struct
