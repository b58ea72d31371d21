"""The syntax tree of a checked expression. Nothing here reads or evaluates one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

TypeName = str
"""A type as a CEL signature: "int", "list(string)", "map(string, dyn)", "kubernetes.Quantity"."""


@dataclass(slots=True)
class Node:
    """One expression. `id` is its number in the tree: positions, types and references are kept by it."""

    id: int


@dataclass(slots=True)
class Literal(Node):
    value: Any


@dataclass(slots=True)
class Identifier(Node):
    name: str


@dataclass(slots=True)
class Select(Node):
    """`operand.field`, or with `test_only` the macro has(operand.field)."""

    operand: Node
    field: str
    test_only: bool


@dataclass(slots=True)
class Call(Node):
    """A function or operator; `target` for `target.function(...)`."""

    function: str
    target: Node | None
    arguments: list[Node]

    @property
    def operands(self) -> list[Node]:
        """Target, if any, and arguments."""
        return self.arguments if self.target is None else [self.target, *self.arguments]


@dataclass(slots=True)
class ListLiteral(Node):
    elements: list[Node]
    optional: frozenset[int]
    """Indexes of the elements written with `?`."""


@dataclass(slots=True)
class Entry:
    key: Node | str
    """A string is the name of a message's field."""
    value: Node
    optional: bool


@dataclass(slots=True)
class MapLiteral(Node):
    message: str
    """Name of the message that is built; empty for a map."""
    entries: list[Entry]


@dataclass(slots=True)
class Comprehension(Node):
    """What the macros all, exists, map, filter... become: a fold over a list or a map's keys."""

    variable: str
    second_variable: str
    range: Node
    accumulator: str
    initial: Node
    condition: Node
    step: Node
    result: Node


@dataclass(slots=True)
class Reference:
    """What the checker found for a name or call: a declared name, or the overloads that may be meant."""

    name: str
    overloads: tuple[str, ...]
    value: Any = None


@dataclass(slots=True)
class Tree:
    """A checked expression."""

    root: Node
    types: dict[int, TypeName]
    references: dict[int, Reference]
    positions: Callable[[], dict[int, int]] = dict
    """Gives the offset of each node in the text, in code points; read only when something is refused."""
    deep: bool = False
    """Whether going through it may take more of Python's stack than there usually is."""

    def walk(self, node: Node | None = None) -> Iterator[Node]:
        """Every node, parents before children."""
        stack = [self.root if node is None else node]
        while stack:
            current = stack.pop()
            yield current
            stack.extend(reversed(children(current)))


def children(node: Node) -> list[Node]:
    """The direct parts of a node in the order in which they are evaluated."""
    if isinstance(node, Select):
        return [node.operand]
    if isinstance(node, Call):
        return node.operands
    if isinstance(node, ListLiteral):
        return node.elements
    if isinstance(node, MapLiteral):
        parts: list[Node] = []
        for entry in node.entries:
            parts.extend([entry.value] if isinstance(entry.key, str) else [entry.key, entry.value])
        return parts
    if isinstance(node, Comprehension):
        return [node.range, node.initial, node.condition, node.step, node.result]
    return []
