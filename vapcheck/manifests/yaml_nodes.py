"""The nodes of a YAML text with their places: the one reader of libyaml's events.

It reads the first document. What a node means is up to the callers: `go_yaml` knows what kubectl makes of it,
gpupool what its own files may say. Nothing is raised: what stops reading is in the result, behind all that
comes before it in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import yaml

MAX_DEPTH = 200
"""Levels of nesting; no kind of Kubernetes has 40, and deeper ones would overflow stacks further on."""


class Pair(NamedTuple):
    key: YamlNode
    value: YamlNode


@dataclass(slots=True)
class YamlNode:
    """One value as written; `line` and `column` count from 1. In a mapping, keys and values are by turns."""

    kind: Literal["document", "scalar", "list", "map", "alias"]
    line: int = 1
    column: int = 1
    start: int = 0
    end: int = -1
    """Offsets into the text; a block ends where its last value does. -1 where the text breaks off inside."""
    tag: str | None = None
    text: str = ""
    """The value of a scalar; the anchor that an alias names."""
    style: str | None = None
    """Of a scalar: its quotes, | or >; of a list or mapping: [ for one in flow style. Else empty."""
    plain: bool = False
    anchor: str | None = None
    children: Sequence[YamlNode] = ()
    target: YamlNode | None = None
    """Of an alias: what it stands for."""

    @property
    def flow(self) -> bool:
        """Whether it is written in one piece: {..}, [..], a scalar or an alias."""
        return bool(self.style) or self.kind in ("scalar", "alias")

    @property
    def anchored(self) -> bool:
        """Whether there is an anchor or an alias in it."""
        return bool(self.anchor or self.target) or any(child.anchored for child in self.children)

    @property
    def pairs(self) -> list[Pair]:
        return list(map(Pair, self.children[::2], self.children[1::2])) if self.kind == "map" else []

    def pair(self, key: str) -> Pair | None:
        return next((pair for pair in self.pairs if pair.key.text == key), None)

    def below(self, part: str | int) -> YamlNode | None:
        """An item of a list, or the value of a key; None where there is none, as in an alias."""
        if isinstance(part, str):
            pair = self.pair(part)
            return pair.value if pair else None
        return self.children[part] if self.kind == "list" and part < len(self.children) else None


@dataclass(frozen=True, slots=True)
class Fault:
    """Why reading stopped. `line` and `column` count from 1, `index` from 0."""

    kind: Literal["syntax", "character", "anchor", "depth"]
    said: str
    """By libyaml; or which character is not allowed; or which anchor is not known."""
    index: int
    line: int
    column: int
    context: str = ""
    """What libyaml was reading there."""
    since: int | None = None
    """The index at which that begins."""


@dataclass(frozen=True, slots=True)
class YamlDocument:
    root: YamlNode | None
    """None for an empty text."""
    whole: bool
    """Whether all of it could be read: then a fault is in what follows."""
    following: YamlNode | None
    """Stands where a second document begins, which is not read."""
    fault: Fault | None


def read_nodes(text: str) -> YamlDocument:
    """The first document in `text`."""
    roots: list[YamlNode] = []
    whole, following = False, None
    try:
        events = yaml.parse(text, Loader=yaml.CSafeLoader)
        fault = _fill(roots, events, text)
        whole = fault is None
        after = next(events, None) if whole else None
        if isinstance(after, yaml.DocumentStartEvent):
            following = _node("document", after)
    except yaml.MarkedYAMLError as error:
        fault = _syntax(error)
    except yaml.reader.ReaderError as error:
        fault = _character(text, error)
    return YamlDocument(roots[0] if roots else None, whole, following, fault)


def _fill(siblings: list[YamlNode], events: Iterator[Any], text: str) -> Fault | None:
    """Put the root into `siblings`; a stack of our own, as a text may nest deeper than Python."""
    anchors: dict[str, YamlNode] = {}
    stack: list[tuple[YamlNode, list[YamlNode]]] = []
    for event in events:
        kind = event.__class__
        if kind is yaml.ScalarEvent:
            mark, end, style = event.start_mark, event.end_mark.index, event.style
            if style == "|" or style == ">":
                end = mark.index + len(text[mark.index : end].rstrip())
            node = YamlNode(
                "scalar", mark.line + 1, mark.column + 1, mark.index, end,
                event.tag, event.value, style, event.implicit[0], event.anchor,
            )  # fmt: skip
        elif kind is yaml.AliasEvent:
            node = _node("alias", event)
            node.text, node.target = event.anchor, anchors.get(event.anchor)
            siblings.append(node)
            if node.target is None:
                return Fault("anchor", event.anchor, node.start, node.line, node.column)
            continue
        elif kind is yaml.SequenceStartEvent or kind is yaml.MappingStartEvent:
            node = _node("list" if kind is yaml.SequenceStartEvent else "map", event)
            node.end, node.tag, node.anchor = -1, event.tag, event.anchor
            node.style = "[" if event.flow_style else ""
        elif kind is yaml.SequenceEndEvent or kind is yaml.MappingEndEvent:
            node, siblings = stack.pop()
            node.end = event.end_mark.index if node.style or not node.children else node.children[-1].end
            continue
        elif kind is yaml.DocumentEndEvent:
            break
        else:
            continue
        siblings.append(node)
        if event.anchor:
            anchors[event.anchor] = node
        if kind is not yaml.ScalarEvent:
            stack.append((node, siblings))
            node.children = siblings = []
            if len(stack) >= MAX_DEPTH:
                return Fault("depth", "", node.start, node.line, node.column)
    return None


def _node(kind: Literal["document", "list", "map", "alias"], event: Any) -> YamlNode:
    mark = event.start_mark
    return YamlNode(kind, mark.line + 1, mark.column + 1, mark.index, event.end_mark.index)


def _syntax(error: yaml.MarkedYAMLError) -> Fault:
    mark = error.problem_mark or error.context_mark
    place = (mark.index, mark.line + 1, mark.column + 1) if mark else (0, 1, 1)
    since = error.context_mark.index if error.context_mark else None
    return Fault("syntax", error.problem or "", *place, error.context or "", since)


def _character(text: str, error: yaml.reader.ReaderError) -> Fault:
    offset = error.position if isinstance(error.position, int) else 0
    before = text.encode("utf-8", "surrogatepass")[:offset].decode(errors="replace")
    shown = f"U+{error.character:04X}" if isinstance(error.character, int) else repr(error.character)
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    return Fault("character", shown, len(before), line, column)
