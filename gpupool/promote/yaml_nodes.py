"""A YAML text as nodes with their start and end, so that one can be replaced in place.

For text that `gpupool.spec.yaml_source` has accepted: shallow, one document, no cycles. Reads only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

Loc = tuple[str | int, ...]


@dataclass(slots=True)
class Node:
    """One value. `start` and `end` are offsets into the text; a block ends where its last value does."""

    kind: Literal["scalar", "mapping", "list", "alias"]
    start: int
    end: int
    flow: bool = True
    """Whether it is written in one piece: {..}, [..], a scalar or an alias."""
    pairs: list[Pair] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)
    anchored: bool = False
    """Whether there is an anchor or an alias in it."""
    text: str = ""
    """Of a scalar: its value as text."""

    def pair(self, key: str) -> Pair | None:
        return next((pair for pair in self.pairs if pair.key.text == key), None)

    def close(self, child: Node) -> None:
        """Take `child` in as the last value so far."""
        self.end = max(self.end, child.end)
        self.anchored = self.anchored or child.anchored


@dataclass(slots=True)
class Pair:
    key: Node
    value: Node


def parse(text: str) -> Node:
    """The root of `text`."""
    events = yaml.parse(text, Loader=yaml.CSafeLoader)
    for event in events:
        if isinstance(event, yaml.NodeEvent):
            return _node(event, events, text)
    return Node("scalar", len(text), len(text))


def _node(event: Any, events: Iterator[Any], text: str) -> Node:
    start, end = event.start_mark.index, event.end_mark.index
    anchored = event.anchor is not None
    if isinstance(event, yaml.AliasEvent):
        return Node("alias", start, end, anchored=True)
    if isinstance(event, yaml.ScalarEvent):
        if event.style in ("|", ">"):
            end = start + len(text[start:end].rstrip())
        return Node("scalar", start, end, anchored=anchored, text=event.value)
    kind: Literal["mapping", "list"] = "mapping" if isinstance(event, yaml.MappingStartEvent) else "list"
    node = Node(kind, start, start, flow=bool(event.flow_style), anchored=anchored)
    for inner in events:
        if isinstance(inner, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            if node.flow and inner.end_mark:
                node.end = inner.end_mark.index
            return node
        child = _node(inner, events, text)
        node.close(child)
        if kind == "list":
            node.items.append(child)
        else:
            value = _node(next(events), events, text)
            node.close(value)
            node.pairs.append(Pair(child, value))
    return node


def find(node: Node, loc: Loc) -> Node | None:
    """The node at `loc` below `node`; None where there is none or an alias stands in between."""
    for part in loc:
        if isinstance(part, int):
            if part >= len(node.items):
                return None
            node = node.items[part]
        else:
            pair = node.pair(part)
            if pair is None:
                return None
            node = pair.value
    return node
