"""Writing parts of a tree as an expression again, for people to read. It need not be what they wrote."""

from __future__ import annotations

import json
from typing import Any

from vapcheck.cel.syntax import (
    Call,
    Comprehension,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
)
from vapcheck.go_text import double_g

_LONGEST = 200


def source_text(node: Node) -> str:
    """An expression, cut where it would be too long to read."""
    text = _text(node)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _text(node: Node) -> str:
    if isinstance(node, Literal):
        return _literal(node.value)
    if isinstance(node, Identifier):
        return node.name
    if isinstance(node, Select):
        chain = f"{_text(node.operand)}.{node.field}"
        return f"has({chain})" if node.test_only else chain
    if isinstance(node, ListLiteral):
        return "[" + ", ".join(map(_text, node.elements)) + "]"
    if isinstance(node, MapLiteral):
        entries = ", ".join(
            f"{entry.key if isinstance(entry.key, str) else _text(entry.key)}: {_text(entry.value)}"
            for entry in node.entries
        )
        return f"{node.message}{{{entries}}}"
    if isinstance(node, Comprehension):
        names = ", ".join(name for name in (node.variable, node.second_variable) if name)
        return f"{_text(node.range)}.({names} => ...)"
    return _call(node) if isinstance(node, Call) else ""


def _call(node: Call) -> str:
    parts = [_text(operand) for operand in node.operands]
    name = node.function
    if name == "_[_]":
        return f"{parts[0]}[{parts[1]}]"
    if name == "_[?_]":
        return f"{parts[0]}[?{parts[1]}]"
    if name == "_?._":
        field = node.operands[1]
        return f"{parts[0]}.?{field.value if isinstance(field, Literal) else parts[1]}"
    if name == "_?_:_":
        return f"({parts[0]} ? {parts[1]} : {parts[2]})"
    if name in ("!_", "-_"):
        return f"{name[0]}{parts[0]}"
    if name == "@in" or (name.startswith("_") and name.endswith("_") and len(parts) == 2):
        sign = "in" if name == "@in" else name.strip("_")
        return f"({parts[0]} {sign} {parts[1]})"
    if node.target is not None:
        return f"{parts[0]}.{name}({', '.join(parts[1:])})"
    return f"{name}({', '.join(parts)})"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + json.dumps(value, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
    if isinstance(value, float):
        return double_g(value)
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)
