"""Reading the checker's output, the protobuf message cel.expr.CheckedExpr, into a tree.

Facts: checked.proto and syntax.proto of cel-spec. Fields are read by their number, one level at a time:
as one declared message, protobuf refuses expressions nested deeper than 50 (its limit is 100 messages, and
each level is two). Nothing here checks or evaluates.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet

from vapcheck.cel.syntax import (
    Call,
    Comprehension,
    Entry,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Reference,
    Select,
    Tree,
    TypeName,
)
from vapcheck.cel.values import Duration, Timestamp, Uint


def read_tree(message: bytes) -> Tree:
    """The tree in a serialized google.protobuf.Any with a cel.expr.CheckedExpr inside."""
    checked = _fields(_last(_fields(message), 2))
    types, references = {}, {}
    for entry in checked.get(3, ()):
        parts = _fields(entry)
        types[_number(parts, 1)] = _type(_last(parts, 2))
    for entry in checked.get(2, ()):
        parts = _fields(entry)
        references[_number(parts, 1)] = _reference(_last(parts, 2))

    def positions() -> dict[int, int]:
        entries = (_fields(entry) for entry in _fields(_last(checked, 5)).get(4, ()))
        return {_number(parts, 1): _number(parts, 2) for parts in entries}

    return Tree(_expression(_last(checked, 4)), types, references, positions)


Fields = dict[int, list[Any]]


def _fields(data: bytes) -> Fields:
    """The fields of a message by number: integers for numbers, bytes for everything else."""
    fields: Fields = {}
    for field in UnknownFieldSet(Empty.FromString(data)):
        fields.setdefault(field.field_number, []).append(field.data)
    return fields


def _list_class() -> Any:
    """ListExpr with its one field that no message without it can be read for: packed numbers."""
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="list.proto", package="cel.expr", syntax="proto3")
    file.message_type.add(name="ListExpr").field.add(
        name="optional_indices", number=2, type=kind.TYPE_INT32, label=kind.LABEL_REPEATED
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("cel.expr.ListExpr"))


_ListExpr = _list_class()


def _last(fields: Fields, number: int) -> bytes:
    values = fields.get(number)
    return values[-1] if values else b""


def _number(fields: Fields, number: int) -> int:
    values = fields.get(number)
    if not values:
        return 0
    value = int(values[-1])
    return value - (1 << 64) if value >= 1 << 63 else value


def _text(fields: Fields, number: int) -> str:
    return _last(fields, number).decode()


def _expression(data: bytes) -> Node:
    fields = _fields(data)
    node_id = _number(fields, 2)
    for number, read in _READERS.items():
        if number in fields:
            return read(node_id, fields[number][-1])
    return Literal(node_id, None)


def _constant(data: bytes) -> Any:
    fields = _fields(data)
    if 2 in fields:
        return bool(fields[2][-1])
    if 3 in fields:
        return _number(fields, 3)
    if 4 in fields:
        return Uint(fields[4][-1])
    if 5 in fields:
        return struct.unpack("<d", struct.pack("<Q", fields[5][-1]))[0]
    if 6 in fields:
        return fields[6][-1].decode("utf-8", "surrogatepass")
    if 7 in fields:
        return fields[7][-1]
    if 8 in fields or 9 in fields:
        parts = _fields(_last(fields, 8 if 8 in fields else 9))
        nanoseconds = _number(parts, 1) * 10**9 + _number(parts, 2)
        return Duration(nanoseconds) if 8 in fields else Timestamp(nanoseconds)
    return None


def _select(node_id: int, data: bytes) -> Node:
    fields = _fields(data)
    return Select(node_id, _expression(_last(fields, 1)), _text(fields, 2), bool(_number(fields, 3)))


def _call(node_id: int, data: bytes) -> Node:
    fields = _fields(data)
    target = _expression(fields[1][-1]) if 1 in fields else None
    return Call(node_id, _text(fields, 2), target, [_expression(part) for part in fields.get(3, ())])


def _list(node_id: int, data: bytes) -> Node:
    fields = _fields(data)
    optional = frozenset(_ListExpr.FromString(data).optional_indices)
    return ListLiteral(node_id, [_expression(part) for part in fields.get(1, ())], optional)


def _map(node_id: int, data: bytes) -> Node:
    fields = _fields(data)
    entries = []
    for part in fields.get(2, ()):
        entry = _fields(part)
        key = _text(entry, 2) if 2 in entry else _expression(_last(entry, 3))
        entries.append(Entry(key, _expression(_last(entry, 4)), bool(_number(entry, 5))))
    return MapLiteral(node_id, _text(fields, 1), entries)


def _comprehension(node_id: int, data: bytes) -> Node:
    fields = _fields(data)
    return Comprehension(
        node_id,
        variable=_text(fields, 1),
        second_variable=_text(fields, 8),
        range=_expression(_last(fields, 2)),
        accumulator=_text(fields, 3),
        initial=_expression(_last(fields, 4)),
        condition=_expression(_last(fields, 5)),
        step=_expression(_last(fields, 6)),
        result=_expression(_last(fields, 7)),
    )


_READERS: dict[int, Callable[[int, bytes], Node]] = {
    3: lambda node_id, data: Literal(node_id, _constant(data)),
    4: lambda node_id, data: Identifier(node_id, _text(_fields(data), 1)),
    5: _select,
    6: _call,
    7: _list,
    8: _map,
    9: _comprehension,
}


@lru_cache(maxsize=1024)
def _reference(data: bytes) -> Reference:
    fields = _fields(data)
    overloads = tuple(part.decode() for part in fields.get(3, ()))
    return Reference(_text(fields, 1), overloads, _constant(fields[4][-1]) if 4 in fields else None)


_PRIMITIVES = ("dyn", "bool", "int", "uint", "double", "string", "bytes")
_WELL_KNOWN = ("dyn", "any", "timestamp", "duration")


@lru_cache(maxsize=1024)
def _type(data: bytes) -> TypeName:
    fields = _fields(data)
    if 2 in fields:
        return "null_type"
    if 3 in fields:
        return _PRIMITIVES[fields[3][-1]]
    if 4 in fields:
        return f"wrapper({_PRIMITIVES[fields[4][-1]]})"
    if 5 in fields:
        return _WELL_KNOWN[fields[5][-1]]
    if 6 in fields:
        return f"list({_type(_last(_fields(fields[6][-1]), 1))})"
    if 7 in fields:
        parts = _fields(fields[7][-1])
        return f"map({_type(_last(parts, 1))}, {_type(_last(parts, 2))})"
    if 9 in fields:
        return str(fields[9][-1].decode())
    if 11 in fields:
        return f"type({_type(fields[11][-1])})"
    if 14 in fields:
        parts = _fields(fields[14][-1])
        parameters = ", ".join(_type(part) for part in parts.get(2, ()))
        return f"{_text(parts, 1)}({parameters})" if parameters else _text(parts, 1)
    return "dyn"
