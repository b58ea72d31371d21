"""What Kubernetes refuses beyond cel-go's type check: the validators of its environment, on the checked tree.

Facts: apiserver 0.36 pkg/cel/environment/base.go; cel-go 0.26 cel/validator.go, checker/checker.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vapcheck.cel import formatting, times
from vapcheck.cel.conversions import duration_of_string, timestamp_of_string
from vapcheck.cel.dispatch import split_type
from vapcheck.cel.errors import CelError, EvaluationError
from vapcheck.cel.libraries.patterns import compile_pattern
from vapcheck.cel.syntax import Call, Comprehension, ListLiteral, Literal, MapLiteral, Node, Select, Tree

Problem = tuple[str, Node]


def problem(tree: Tree) -> Problem | None:
    """The first reason to refuse the tree, and where; None when there is none."""
    exempt = _format_arguments(tree)
    for node in tree.walk():
        found: Problem | None = None
        if isinstance(node, Call):
            found = _literal_argument(node) or _format_call(tree, node)
        elif node.id in exempt:
            continue
        elif isinstance(node, ListLiteral):
            elements = [(element, index in node.optional) for index, element in enumerate(node.elements)]
            found = _mixed(tree, elements)
        elif isinstance(node, MapLiteral) and not node.message:
            keys = [(entry.key, False) for entry in node.entries if not isinstance(entry.key, str)]
            found = _mixed(tree, keys) or _mixed(
                tree, [(entry.value, entry.optional) for entry in node.entries]
            )
        if found is not None:
            return found
    return None


def _format_arguments(tree: Tree) -> set[int]:
    """Numbers of the literals inside format()'s arguments, which may be mixed."""
    return {
        part.id
        for node in tree.walk()
        if isinstance(node, Call) and node.function == "format" and node.target is not None
        for argument in node.arguments
        for part in tree.walk(argument)
    }


def _mixed(tree: Tree, elements: list[tuple[Node, bool]]) -> Problem | None:
    expected = ""
    for element, optional in elements:
        found = tree.types.get(element.id, "dyn")
        if optional and found.startswith("optional_type("):
            found = split_type(found)[1][0]
        if not expected:
            expected = found
        elif found != expected and not (_has_empty(element) and _agree(expected, found)):
            if not _agree(found, expected) or "(" not in found:
                return f"expected type '{_shown(expected)}' but found '{_shown(found)}'", element
            expected = found
    return None


def _shown(signature: str) -> str:
    return "null" if signature == "null_type" else signature


def _has_empty(node: Node) -> bool:
    """Whether it is a literal with an empty one in it, whose type nothing determines."""
    if isinstance(node, ListLiteral):
        return not node.elements or any(map(_has_empty, node.elements))
    if isinstance(node, MapLiteral):
        return not node.entries or any(_has_empty(entry.value) for entry in node.entries)
    return False


def _agree(one: str, other: str) -> bool:
    """Whether the types agree where neither is dyn."""
    first, first_parameters = split_type(one)
    second, second_parameters = split_type(other)
    if "dyn" in (first, second):
        return True
    return first == second and all(
        _agree(left, right) for left, right in zip(first_parameters, second_parameters, strict=False)
    )


def _literal_argument(node: Call) -> Problem | None:
    """A duration, time or pattern written as a constant that isn't one."""
    check = _CHECKED.get(node.function)
    first = node.arguments[0] if node.arguments else None
    if check is None or not isinstance(first, Literal):
        return None
    try:
        check(first.value)
    except (EvaluationError, TypeError):
        return f"invalid {node.function} argument", first
    return None


def _timestamp(value: Any) -> None:
    if type(value) is int:
        times.from_seconds(value)
    else:
        timestamp_of_string(value)


_CHECKED: dict[str, Callable[[Any], Any]] = {
    "duration": duration_of_string,
    "timestamp": _timestamp,
    "matches": compile_pattern,
}


_ACCEPTED = {
    "d": ("int", "uint"),
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": ("int", "uint", "bool"),
    "x": ("int", "uint", "string", "bytes"),
    "o": ("int", "uint"),
}
_PRINTABLE: tuple[str, ...] = (
    "list",
    "map",
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "timestamp",
    "bytes",
    "duration",
    "type",
)
_PRINTABLE += ("null_type", "dyn")


def _format_call(tree: Tree, node: Call) -> Problem | None:
    """A constant format string that doesn't fit its arguments."""
    if (
        node.function != "format"
        or not isinstance(node.target, Literal)
        or not isinstance(node.target.value, str)
    ):
        return None
    if len(node.arguments) != 1 or not isinstance(node.arguments[0], ListLiteral):
        return None
    elements = node.arguments[0].elements
    used = 0
    for piece in formatting.parse(node.target.value):
        if isinstance(piece, str):
            continue
        if used >= len(elements):
            return f"index {used} out of range", node
        if isinstance(piece, CelError):
            return str(piece), node
        element = elements[used]
        used += 1
        unfit = _unprintable(tree, element, piece.letter.lower())
        if unfit is not None and not (unfit is element and _untyped(tree, element, elements)):
            name = split_type(tree.types.get(unfit.id, "dyn"))[0]
            return f"error during formatting: {formatting.PROBLEMS[piece.letter.lower()].format(name)}", unfit
    if len(elements) > used:
        text = f"too many arguments supplied to string.format (expected {used}, got {len(elements)})"
        return text, node
    return None


_READING = ("_[_]", "_[?_]", "_?._", "_+_", "value", "orValue")


def _untyped(tree: Tree, element: Node, elements: list[Node]) -> bool:
    """Whether an argument gets its type only from another argument: cel-go's validator sees dyn there."""
    if isinstance(element, (ListLiteral, MapLiteral)):
        return False
    found = tree.types.get(element.id)
    return _empty(element) and any(tree.types.get(one.id) == found and not _empty(one) for one in elements)


def _empty(node: Node) -> bool:
    """Whether it reads only from empty literals, so that nothing in it determines its type."""
    if isinstance(node, ListLiteral):
        return all(map(_empty, node.elements))
    if isinstance(node, MapLiteral):
        return not node.entries
    if isinstance(node, Select):
        return _empty(node.operand)
    if isinstance(node, Comprehension):
        return _empty(node.range)
    if not isinstance(node, Call):
        return False
    if node.function == "_?_:_":
        return all(map(_empty, node.arguments[1:]))
    return node.function == "optional.none" or (node.function in _READING and _empty(node.operands[0]))


def _unprintable(tree: Tree, element: Node, letter: str) -> Node | None:
    """The part of an argument that a clause can't print."""
    name = split_type(tree.types.get(element.id, "dyn"))[0]
    if letter != "s":
        return None if name == "dyn" or name in _ACCEPTED[letter] else element
    if name not in _PRINTABLE:
        return element
    parts = element.elements if isinstance(element, ListLiteral) else []
    if isinstance(element, MapLiteral):
        parts = [
            part for entry in element.entries for part in (entry.key, entry.value) if isinstance(part, Node)
        ]
    return next((bad for part in parts if (bad := _unprintable(tree, part, letter)) is not None), None)
