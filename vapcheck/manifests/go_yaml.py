"""YAML exactly as kubectl reads it: libyaml's events, and what Go's YAML 1.1 library makes of them.

This is the slow reader that handles every text; `vapcheck.manifests.plain_yaml` reads what is plain. It
reads the first document of a text, as kubectl does after splitting, and knows nothing of Kubernetes.
One difference is known: Go's scanner takes `{a:, b:}` for the keys `a:` and `b:`, libyaml's refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from vapcheck.manifests.go_scalars import MERGE, ScalarError, as_sent, key_text, resolve

MAX_DEPTH = 200
"""Levels of nesting; no kind of Kubernetes has 40, and deeper ones would overflow stacks further on."""
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_LOW, _HIGH = 400_000, 4_000_000
"""Go's library allows 99 % of values to come from aliases below, 10 % above, and scales between."""


class YamlError(Exception):
    """kubectl can't read the text. `line` and `column` count from 1 within it; `bare` is the message without
    anything that is written there."""

    def __init__(self, message: str, line: int, column: int, bare: str = "") -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column
        self.bare = bare or message


@dataclass(slots=True)
class Node:
    """One value as written; `line` and `column` count from 1. For a mapping, keys and values by turns."""

    kind: str
    line: int
    column: int
    tag: str | None = None
    text: str = ""
    plain: bool = False
    children: list[Node] = field(default_factory=list)
    target: Node | None = None
    """Of an alias: what it stands for."""


@dataclass(slots=True)
class Reading:
    """What came of one text."""

    value: Any
    root: Node | None
    duplicates: list[tuple[str, int, int]]
    """Keys that appear twice in one mapping (the last one counts), with their place."""
    rest: int
    """The line of what follows the document after `...` and is never read; 0 for nothing."""


def read(text: str) -> Reading:
    """The first document in `text`. Raises YamlError where kubectl fails, and for absurd nesting."""
    root, rest = compose(text)
    decoder = _Decoder()
    value = None if root is None else decoder.value(root, 0)
    if decoder.unsendable:
        _refuse_unsendable(value)
    return Reading(value, root, decoder.duplicates, rest)


def compose(text: str) -> tuple[Node | None, int]:
    """The nodes of the first document (None for an empty one), and the line of what follows it, or 0."""
    try:
        events = yaml.parse(text, Loader=yaml.CSafeLoader)
        root = _tree(events, text)
        rest = 0
        if root is not None:
            rest = _what_follows(events)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        said = ": ".join(part for part in (error.context, error.problem) if part)
        raise YamlError(said or "malformed", *place) from error
    except yaml.reader.ReaderError as error:
        offset = error.position if isinstance(error.position, int) else 0
        before = text.encode("utf-8", "surrogatepass")[:offset].decode(errors="replace")
        line = before.count("\n") + 1
        shown = f"U+{error.character:04X}" if isinstance(error.character, int) else repr(error.character)
        raise YamlError(
            f"character {shown} is not allowed", line, len(before.rpartition("\n")[2]) + 1
        ) from error
    return root, rest


def _what_follows(events: Iterator[Any]) -> int:
    """kubectl reads one document of a text; anything after it is not parsed."""
    try:
        following = next(events)
        while isinstance(following, yaml.DocumentEndEvent):
            following = next(events)
    except yaml.MarkedYAMLError as error:
        return error.problem_mark.line + 1 if error.problem_mark else 1
    if not isinstance(following, yaml.DocumentStartEvent) or following.start_mark is None:
        return 0
    return following.start_mark.line + 1


def _tree(events: Iterator[Any], text: str) -> Node | None:
    """The nodes of the first document; a stack of our own, as a text may nest deeper than Python."""
    anchors: dict[str, Node] = {}
    slashes = "\\/" in text
    top = Node("document", 1, 1)
    stack = [top]
    for event in events:
        kind = event.__class__
        mark = event.start_mark
        if kind is yaml.ScalarEvent:
            node = Node("scalar", mark.line + 1, mark.column + 1, event.tag, event.value, event.implicit[0])
            if slashes and event.style == '"':
                _refuse_slash(text, event)
        elif kind is yaml.AliasEvent:
            node = Node("alias", mark.line + 1, mark.column + 1, text=event.anchor)
            node.target = anchors.get(event.anchor)
            if node.target is None:
                message, bare = f"unknown anchor '{event.anchor}' referenced", "unknown anchor referenced"
                raise YamlError(message, node.line, node.column, bare)
            stack[-1].children.append(node)
            continue
        elif kind is yaml.SequenceStartEvent or kind is yaml.MappingStartEvent:
            name = "list" if kind is yaml.SequenceStartEvent else "map"
            node = Node(name, mark.line + 1, mark.column + 1, event.tag)
        else:
            if kind is yaml.SequenceEndEvent or kind is yaml.MappingEndEvent:
                stack.pop()
            elif kind is yaml.DocumentEndEvent:
                break
            continue
        stack[-1].children.append(node)
        if event.anchor:
            anchors[event.anchor] = node
        if node.kind != "scalar":
            stack.append(node)
            if len(stack) > MAX_DEPTH:
                raise YamlError(f"nested deeper than {MAX_DEPTH} levels", node.line, node.column)
    return top.children[0] if top.children else None


def _refuse_slash(text: str, event: Any) -> None:
    """Go's scanner is older than libyaml's and doesn't know the escape `\\/`."""
    raw = text[event.start_mark.index : event.end_mark.index]
    if any(escape == "\\/" for escape in _ESCAPE.findall(raw)):
        line = event.start_mark.line + 1
        raise YamlError("found unknown escape character '/'", line, event.start_mark.column + 1)


@dataclass(frozen=True, slots=True)
class _Unsendable:
    """Stands for a number or key that JSON can't have, until it is known whether another replaces it."""

    error: YamlError


def _refuse_unsendable(value: Any) -> None:
    if isinstance(value, _Unsendable):
        raise value.error
    if isinstance(value, dict):
        for key in value:
            _refuse_unsendable(key)
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            _refuse_unsendable(item)


class _Decoder:
    """Nodes to JSON values."""

    def __init__(self) -> None:
        self.duplicates: list[tuple[str, int, int]] = []
        self.steps = self.from_aliases = self.inside_alias = 0
        self.open: set[int] = set()
        self.unsendable = False

    def value(self, node: Node, depth: int) -> Any:
        self.count(node, depth)
        if node.kind == "scalar":
            return self.sent(node)
        if node.kind == "list":
            return [self.value(child, depth + 1) for child in node.children]
        if node.kind == "map":
            found: dict[str, Any] = {}
            self.fill(found, node, depth)
            return found
        return self.through(node, lambda target: self.value(target, depth + 1))

    def count(self, node: Node, depth: int) -> None:
        """Refuse what Go's library takes for an attack by aliases, and what is too deep."""
        self.steps += 1
        if self.inside_alias:
            self.from_aliases += 1
        if depth > MAX_DEPTH:
            raise YamlError(f"nested deeper than {MAX_DEPTH} levels", node.line, node.column)
        if self.from_aliases > 100 and self.steps > 1000:
            share = min(max((self.steps - _LOW) / (_HIGH - _LOW), 0.0), 1.0)
            if self.from_aliases / self.steps > 0.99 - 0.89 * share:
                raise YamlError("document contains excessive aliasing", node.line, node.column)

    def through(self, node: Node, then: Any) -> Any:
        """What `then` makes of the target of an alias."""
        if id(node) in self.open:
            message, bare = f"anchor '{node.text}' value contains itself", "an anchor's value contains itself"
            raise YamlError(message, node.line, node.column, bare)
        self.open.add(id(node))
        self.inside_alias += 1
        value = then(node.target)
        self.inside_alias -= 1
        self.open.discard(id(node))
        return value

    def sent(self, node: Node) -> Any:
        value = self.scalar(node)
        try:
            return as_sent(value)
        except ScalarError as error:
            self.unsendable = True
            return _Unsendable(YamlError(str(error), node.line, node.column, error.bare))

    def scalar(self, node: Node) -> Any:
        if not node.tag and not node.plain:
            return node.text
        return self.guarded(node, lambda text: resolve(node.tag, text), node.text)

    def guarded(self, node: Node, function: Any, argument: Any) -> Any:
        try:
            return function(argument)
        except ScalarError as error:
            raise YamlError(str(error), node.line, node.column, error.bare) from error

    def fill(self, found: dict[str, Any], node: Node, depth: int) -> None:
        """Put the pairs of the mapping `node` into `found`; a merge overwrites what stands before it."""
        own: set[str] = set()
        pairs = iter(node.children)
        for key, value in zip(pairs, pairs, strict=True):
            if key.kind == "scalar" and key.text == "<<" and (key.plain or key.tag == MERGE):
                self.merge(found, value, depth)
                continue
            name = self.key(key, depth)
            if name in own:
                self.duplicates.append((name, key.line, key.column))
            own.add(name)
            found[name] = self.value(value, depth + 1)

    def key(self, node: Node, depth: int) -> Any:
        """The key as text, or what stands for one that JSON can't have."""
        self.count(node, depth)
        if node.kind == "alias":
            return self.through(node, lambda target: self.key(target, depth + 1))
        if node.kind != "scalar":
            raise YamlError("invalid map key: a mapping or list can't be a key", node.line, node.column)
        value = self.scalar(node)
        try:
            return key_text(value)
        except ScalarError as error:
            self.unsendable = True
            return _Unsendable(YamlError(str(error), node.line, node.column, error.bare))

    def merge(self, found: dict[str, Any], node: Node, depth: int) -> None:
        """Merge a mapping, an alias of one, or a list of such (of which the first ones count most)."""
        sources = node.children[::-1] if node.kind == "list" else [node]
        for source in sources:
            if (source.target or source).kind != "map":
                message = "map merge requires map or sequence of maps as the value"
                raise YamlError(message, source.line, source.column)
            self.count(source, depth)
            if source.kind == "alias":
                self.through(source, lambda target: self.merged(found, target, depth + 1))
            else:
                self.fill(found, source, depth + 1)

    def merged(self, found: dict[str, Any], target: Node, depth: int) -> None:
        self.count(target, depth)
        self.fill(found, target, depth)
