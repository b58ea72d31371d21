"""A YAML file as plain values with their places.

Builds the document and knows the place of everything in it; what a plain scalar means is
`gpupool.spec.yaml_scalars`. What can be read around a mistake is read. Duplicate keys, several documents,
files over 1 MiB, alias bombs and deep nesting are findings, never crashes.

Knows nothing of the fields of an environment.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpupool.findings import Finding, SpecError
from gpupool.spec.yaml_scalars import plain_value

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
"""Nesting that no environment needs; libyaml's own composer overflows the C stack at some 10^5."""
MAX_NODES = 200_000
"""Nodes once aliases are expanded: 100 pools and 200 tenants have some 10^4."""

_TAGS = {
    yaml.SequenceStartEvent: "tag:yaml.org,2002:seq",
    yaml.MappingStartEvent: "tag:yaml.org,2002:map",
}

_CONFLICT = re.compile(r"^(<<<<<<<|>>>>>>>)(?= )|^=======(?=\r?$)", re.MULTILINE)
"""A line by which Git parts the two sides of a conflict (git-merge(1), how conflicts are presented)."""

_LINE_END = re.compile("\r\n|[\r\n\x85\u2028\u2029]")

Loc = tuple[str | int, ...]


class Unread:
    """Stands for a value that could not be read, which a finding reports already."""


@dataclass(slots=True)
class _Node:
    line: int
    column: int
    value: Any = None
    children: dict[str | int, _Node] = field(default_factory=dict)
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    size: int = 1


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed file: its values, and the place of each of them."""

    file: str
    data: Any
    root: _Node
    text: str = field(default="", repr=False)
    """The file as it was read."""
    findings: tuple[Finding, ...] = ()
    """What is wrong, though all of the file could be read."""
    unread: frozenset[Loc] = frozenset()
    """The places that those findings leave open."""

    def sound(self) -> Source:
        """This file, where nothing is wrong with it as YAML. Raises SpecError with every finding."""
        if self.findings:
            raise SpecError(self.findings)
        return self

    def place(self, loc: Loc) -> tuple[int, int]:
        """Line and column of `loc`: of the key in a mapping, of the item in a list. Where a part of
        `loc` does not exist, of the innermost part that does."""
        node, place = self.root, (self.root.line, self.root.column)
        for part in loc:
            if isinstance(part, str) and part in node.keys:
                place = node.keys[part]
            child = node.children.get(part)
            if child is None:
                break
            if not isinstance(part, str):
                place = (child.line, child.column)
            node = child
        return place

    def written(self, loc: Loc) -> str | None:
        """The plain number at `loc` as the file spells it: 1.10 is not 1.1. None where none is found."""
        node = self.root
        for part in loc:
            if (child := node.children.get(part)) is None:
                return None
            node = child
        number = re.compile(r"[-+0-9.]+").match(_lines(self.text)[node.line - 1], node.column - 1)
        return number[0] if number else None

    def finding(self, loc: Loc, message: str, hint: str) -> Finding:
        line, column = self.place(loc)
        return Finding(self.file, line, column, path_text(loc), message, hint)


@functools.lru_cache(maxsize=1)
def _lines(text: str) -> list[str]:
    """The lines of a file; asked for once for each number that is wrong in it."""
    return _LINE_END.split(text)


def path_text(loc: Loc) -> str:
    """`("pools", 1, "nodes")` as `pools[1].nodes`; keys that are not plain words in quotes."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z0-9_-]+", part):
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


def display_path(path: Path) -> str:
    """`path` as people would type it here: relative where that is shorter than climbing."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def read_source(path: Path) -> Source:
    """Read and parse `path`. Raises SpecError where reading had to stop, as `parse_source`."""
    name = display_path(path)
    try:
        raw = path.read_bytes()[: MAX_BYTES + 1]
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecError(
            [Finding(name, 1, 1, "", f"can't be read: {reason}", "name a readable file")]
        ) from error
    return parse_source(name, raw)


def parse_source(name: str, raw: bytes) -> Source:
    """Parse `raw`, the content of the file shown as `name`. Raises SpecError with every finding so far where
    reading had to stop; what else is wrong is in the result's findings."""
    builder = _Builder(name)

    def refuse(line: int, column: int, message: str, hint: str) -> SpecError:
        return SpecError([*builder.findings, Finding(name, line, column, "", message, hint)])

    if len(raw) > MAX_BYTES:
        raise refuse(1, 1, "the file is larger than 1 MiB", "split it into several environments")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise refuse(
            line, column, f"byte 0x{raw[error.start]:02x} is not UTF-8", "save the file as UTF-8"
        ) from error
    try:
        root = builder.build(yaml.parse(text, Loader=yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        if conflict := _CONFLICT.search(text):
            raise refuse(
                _position(text, conflict.start())[0], 1, f"{conflict[0]}: a merge conflict is not resolved",
                "keep what is right of both sides, and remove the lines with <<<<<<<, ======= and >>>>>>>",
            ) from error  # fmt: skip
        mark = error.problem_mark
        if mark is None or mark.index >= len(text):
            # Something is never closed: where it opens helps more than the end of the file.
            mark = error.context_mark or mark
        line, column = _position(text, mark.index if mark else 0)
        problem = error.problem or error.context or "malformed"
        raise refuse(line, column, f"not YAML: {problem}", "correct the YAML") from error
    except yaml.reader.ReaderError as error:
        offset = error.position if isinstance(error.position, int) else 0
        line, column = _position(text, len(text.encode()[:offset].decode(errors="replace")))
        shown = f"U+{error.character:04X}" if isinstance(error.character, int) else repr(error.character)
        raise refuse(line, column, f"character {shown} is not allowed in YAML", "remove it") from error
    if builder.stopped:
        raise SpecError(builder.findings)
    return Source(name, root.value, root, text, tuple(builder.findings), frozenset(builder.unread))


def _position(text: str, index: int) -> tuple[int, int]:
    """Line and column of the character at `index`, or of the last line's end where there is none. Lines end
    where the parser ends them (YAML 1.1)."""
    above = _LINE_END.split(text[:index])
    return len(above), len(above[-1]) + 1


class _Stop(Exception):
    """Nothing after this point of the file can be read."""


class _Builder:
    """Events to nodes. Our own, because the library's composer recurses in C without a bound."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.findings: list[Finding] = []
        self.unread: set[Loc] = set()
        self.stopped = False
        self.anchors: dict[str, _Node] = {}
        self.open: set[str] = set()

    def build(self, events: Iterator[Any]) -> _Node:
        self.events = events
        root: _Node | None = None
        try:
            for event in events:
                if isinstance(event, yaml.DocumentStartEvent):
                    self.anchors = {}
                    if root is not None:
                        self.stop(event, (), "a second document starts here", "write it to a file of its own")
                elif isinstance(event, yaml.NodeEvent):
                    root = self.node(event, (), 0)
        except _Stop:
            self.stopped = True
        return root or _Node(1, 1)

    def report(self, event: Any, loc: Loc, message: str, hint: str) -> None:
        mark = event.start_mark
        self.findings.append(
            Finding(self.name, mark.line + 1, mark.column + 1, path_text(loc), message, hint)
        )

    def stop(self, event: Any, loc: Loc, message: str, hint: str) -> None:
        self.report(event, loc, message, hint)
        raise _Stop

    def node(self, event: Any, loc: Loc, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            self.stop(
                event, (), f"nested deeper than {MAX_DEPTH} levels", "an environment needs fewer than 10"
            )
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, loc)
        node = _Node(event.start_mark.line + 1, event.start_mark.column + 1)
        if event.anchor:
            self.open.add(event.anchor)
        if isinstance(event, yaml.ScalarEvent):
            node.value = self.scalar(event, loc)
            if isinstance(node.value, Unread):
                self.unread.add(loc)
        else:
            if event.tag not in (None, "!", _TAGS[type(event)]):
                self.report(event, loc, f"tag {event.tag} is not supported", "write the plain value")
            (self.sequence if isinstance(event, yaml.SequenceStartEvent) else self.mapping)(node, loc, depth)
        if event.anchor:
            self.open.discard(event.anchor)
            self.anchors[event.anchor] = node
        return node

    def grow(self, node: _Node, child: _Node, event: Any, loc: Loc) -> None:
        """Count `child` as part of `node`; asked after each child, before the next alias is expanded."""
        node.size += child.size
        if node.size > MAX_NODES:
            self.stop(
                event, loc, f"more than {MAX_NODES} values once aliases are expanded", "use fewer aliases"
            )

    def alias(self, event: Any, loc: Loc) -> _Node:
        known = self.anchors.get(event.anchor)
        if event.anchor in self.open:
            self.stop(event, loc, f"*{event.anchor} contains itself", "remove the alias")
        if known is None:
            self.stop(
                event, loc, f"no anchor &{event.anchor} before this alias", "define it earlier in the file"
            )
            raise _Stop
        return known

    def sequence(self, node: _Node, loc: Loc, depth: int) -> None:
        node.value = []
        for event in self.events:
            if isinstance(event, yaml.SequenceEndEvent):
                return
            index = len(node.value)
            child = self.node(event, (*loc, index), depth + 1)
            node.children[index] = child
            node.value.append(child.value)
            self.grow(node, child, event, loc)

    def mapping(self, node: _Node, loc: Loc, depth: int) -> None:
        node.value = {}
        merged: list[_Node] = []
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self.key(event, loc)
            child = self.node(next(self.events), (*loc, key if key is not None else "?"), depth + 1)
            self.grow(node, child, event, loc)
            if key == "<<" and event.implicit[0]:
                merged.extend(self.merge_sources(event, child, loc))
            elif key is not None:
                if key in node.children:
                    line = node.keys[key][0]
                    self.report(
                        event,
                        (*loc, key),
                        f"key {key!r} appears twice, first in line {line}",
                        "keep one of them",
                    )
                    self.unread.add((*loc, key))
                node.value[key] = child.value
                node.children[key] = child
                node.keys[key] = (event.start_mark.line + 1, event.start_mark.column + 1)
        for source in merged:
            for name, place in source.keys.items():
                if name not in node.children:
                    child = source.children[name]
                    node.value[name], node.children[name], node.keys[name] = child.value, child, place

    def merge_sources(self, event: Any, child: _Node, loc: Loc) -> list[_Node]:
        sources = list(child.children.values()) if isinstance(child.value, list) else [child]
        if all(isinstance(source.value, dict) for source in sources):
            return sources
        self.unread.add((*loc, "<<"))
        self.report(event, (*loc, "<<"), "a merge key needs a mapping", "write <<: *anchor of a mapping")
        return []

    def key(self, event: Any, loc: Loc) -> str | None:
        if not isinstance(event, yaml.ScalarEvent):
            if isinstance(event, yaml.AliasEvent):
                self.stop(event, loc, "an alias as key", "write the key out")
            self.stop(event, loc, "a mapping or list as key", "use a plain word; text with {{ needs quotes")
        value = "<<" if event.value == "<<" else self.scalar(event, loc)
        if isinstance(value, Unread):
            return str(event.value)
        if isinstance(value, str):
            return value
        self.unread.add((*loc, event.value))
        shown = event.value or "(empty)"
        self.report(
            event, loc, f"key {shown} is not text to every reader of YAML", f'write "{event.value}" in quotes'
        )
        return None

    def scalar(self, event: Any, loc: Loc) -> Any:
        text: str = event.value
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            self.report(event, loc, f"tag {event.tag} is not supported", "write the plain value")
            return Unread()
        if event.style or event.tag:  # style: None or "" for plain scalars, by parser
            return text
        return plain_value(text)
