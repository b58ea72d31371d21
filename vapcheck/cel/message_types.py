"""Types with fields for the checker, so that a misspelt field is refused before anything is evaluated.

The checker knows such types as protobuf messages; they are made here from plain tables. Values stay
ordinary dicts. What messages can't express (lists of lists, maps of lists) is looser: `dyn` inside. Nothing
here compiles.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    struct_pb2,
    timestamp_pb2,
)

from vapcheck.cel.dispatch import split_type

Types = Mapping[str, Mapping[str, str]]
"""By type name (`kubernetes.UserInfo`) the fields and their CEL signatures."""

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bool": _FIELD.TYPE_BOOL,
    "bytes": _FIELD.TYPE_BYTES,
    "double": _FIELD.TYPE_DOUBLE,
    "int": _FIELD.TYPE_INT64,
    "string": _FIELD.TYPE_STRING,
    "uint": _FIELD.TYPE_UINT64,
}
_MESSAGES = {
    "dyn": "google.protobuf.Value",
    "list": "google.protobuf.ListValue",
    "map": "google.protobuf.Struct",
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
}

ADMISSION: Types = json.loads(Path(__file__).with_name("admission_types.json").read_bytes())
"""What `request` and `namespaceObject` have (apiserver 0.36 pkg/admission/plugin/cel/compile.go)."""


def pool(types: Types) -> Any:
    """A descriptor pool with a message for each type; a prefix may name types of prefixes before it."""
    found = descriptor_pool.DescriptorPool()
    for module in (struct_pb2, timestamp_pb2, duration_pb2):
        found.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    by_package: dict[str, list[str]] = {}
    for name in types:
        by_package.setdefault(name.rpartition(".")[0], []).append(name)
    files = [module.DESCRIPTOR.name for module in (struct_pb2, timestamp_pb2, duration_pb2)]
    for package, names in by_package.items():
        file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", syntax="proto3", package=package)
        file.dependency.extend(files)
        for name in names:
            message = file.message_type.add(name=name.rpartition(".")[2])
            for number, (field, signature) in enumerate(types[name].items(), start=1):
                _add_field(message, f".{name}", field, number, signature, types)
        found.AddSerializedFile(file.SerializeToString())
        files.append(file.name)
    return found


def _add_field(message: Any, owner: str, field: str, number: int, signature: str, types: Types) -> None:
    entry = message.field.add(name=field, number=number, label=_FIELD.LABEL_OPTIONAL, json_name=field)
    name, parameters = split_type(signature)
    if name == "list" and parameters and split_type(parameters[0])[0] not in ("list", "map"):
        entry.label = _FIELD.LABEL_REPEATED
        _set_type(entry, parameters[0], types)
    elif name == "map" and len(parameters) == 2 and parameters[0] != "dyn":
        nested = message.nested_type.add(name=f"{field[:1].upper()}{field[1:]}Entry")
        nested.options.map_entry = True
        for index, part in enumerate(parameters, start=1):
            part_entry = nested.field.add(name=("key", "value")[index - 1], number=index)
            part_entry.label = _FIELD.LABEL_OPTIONAL
            _set_type(part_entry, part, types)
        entry.label, entry.type, entry.type_name = (
            _FIELD.LABEL_REPEATED,
            _FIELD.TYPE_MESSAGE,
            f"{owner}.{nested.name}",
        )
    else:
        _set_type(entry, signature, types)


def _set_type(entry: Any, signature: str, types: Types) -> None:
    name, _ = split_type(signature)
    if name in _SCALARS:
        entry.type = _SCALARS[name]
        return
    entry.type = _FIELD.TYPE_MESSAGE
    entry.type_name = "." + (name if name in types else _MESSAGES.get(name, _MESSAGES["dyn"]))
