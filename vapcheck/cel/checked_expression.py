"""Reading the checker's output, the protobuf message cel.expr.CheckedExpr, into a tree.

Facts: checked.proto and syntax.proto of cel-spec. The wire format is decoded here directly, so that no
generated classes are needed. Nothing here checks or evaluates.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

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
    """The fields of a message by number: integers for varints, bytes for everything else."""
    fields: Fields = {}
    position, end = 0, len(data)
    value: int | bytes
    while position < end:
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == 0:
            value, position = _varint(data, position)
        elif kind == 2:
            size, position = _varint(data, position)
            value, position = data[position : position + size], position + size
        else:
            size = 8 if kind == 1 else 4
            value, position = data[position : position + size], position + size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 128:
        return byte, position + 1
    result, shift = byte & 127, 7
    while True:
        position += 1
        byte = data[position]
        result |= (byte & 127) << shift
        if byte < 128:
            return result, position + 1
        shift += 7


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


def _literal(node_id: int, data: bytes) -> Node:
    return Literal(node_id, _constant(data))


def _constant(data: bytes) -> Any:
    fields = _fields(data)
    if 2 in fields:
        return bool(fields[2][-1])
    if 3 in fields:
        return _number(fields, 3)
    if 4 in fields:
        return Uint(fields[4][-1])
    if 5 in fields:
        return struct.unpack("<d", fields[5][-1])[0]
    if 6 in fields:
        return fields[6][-1].decode("utf-8", "surrogatepass")
    if 7 in fields:
        return fields[7][-1]
    if 8 in fields or 9 in fields:
        parts = _fields(_last(fields, 8 if 8 in fields else 9))
        nanoseconds = _number(parts, 1) * 10**9 + _number(parts, 2)
        return Duration(nanoseconds) if 8 in fields else Timestamp(nanoseconds)
    return None


def _identifier(node_id: int, data: bytes) -> Node:
    return Identifier(node_id, _text(_fields(data), 1))


def _select(node_id: int, data: bytes) -> Node:
    fields = _fields(data)
    return Select(node_id, _expression(_last(fields, 1)), _text(fields, 2), bool(_number(fields, 3)))


def _call(node_id: int, data: bytes) -> Node:
    fields = _fields(data)
    target = _expression(fields[1][-1]) if 1 in fields else None
    return Call(node_id, _text(fields, 2), target, [_expression(part) for part in fields.get(3, ())])


def _list(node_id: int, data: bytes) -> Node:
    fields = _fields(data)
    optional: set[int] = set()
    for part in fields.get(2, ()):
        position = 0
        while isinstance(part, bytes) and position < len(part):  # repeated numbers are packed
            index, position = _varint(part, position)
            optional.add(index)
        if isinstance(part, int):
            optional.add(part)
    return ListLiteral(node_id, [_expression(part) for part in fields.get(1, ())], frozenset(optional))


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


_READERS = {3: _literal, 4: _identifier, 5: _select, 6: _call, 7: _list, 8: _map, 9: _comprehension}


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
