"""A YAML file as plain values with their places.

Builds the document and knows the place of everything in it; what a plain scalar means is
`gpupool.environment.spec.yaml_scalars`. What can be read around a mistake is read. Duplicate keys, several
documents, files over 1 MiB, alias bombs and deep nesting are findings, never crashes.

Knows nothing of the fields of an environment.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, NoReturn

from gpupool.environment.spec.yaml_scalars import plain_value
from gpupool.findings import Finding, SpecError, file_finding
from gpupool.findings.finding import INVALID_FILE
from vapcheck import YamlDocument, YamlNode, read_nodes
from vapcheck.reading import TooLargeError, read_file

MAX_BYTES = 1 << 20
_TOO_LARGE = ("the file is larger than 1 MiB", "split it into several environments")
MAX_DEPTH = 40
"""Nesting that no environment needs."""
MAX_NODES = 200_000
"""Nodes once aliases are expanded: 100 pools and 200 tenants have some 10^4."""

_TAGS = {"list": "tag:yaml.org,2002:seq", "map": "tag:yaml.org,2002:map"}

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
class YamlSource:
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

    def sound(self) -> YamlSource:
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
        number = re.compile(r"[-+0-9.]+").match(self.line(node.line), node.column - 1)
        return number[0] if number else None

    def line(self, number: int) -> str:
        """A line of the file, counted from 1."""
        return _lines(self.text)[number - 1]

    def finding(self, loc: Loc, what: str, remediation: str, code: str = INVALID_FILE) -> Finding:
        line, column = self.place(loc)
        return file_finding(self.file, line, column, path_text(loc), what, remediation, code)


@functools.lru_cache(maxsize=1)
def _lines(text: str) -> list[str]:
    """The lines of a file, which is asked for many of them one after the other."""
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


def value_at(data: Any, loc: Sequence[str | int]) -> Any:
    """What `data` has at `loc`; None where that is nothing."""
    for part in loc:
        if isinstance(data, dict) and isinstance(part, str):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def display_path(path: Path) -> str:
    """`path` as people would type it here: relative where that is shorter than climbing."""
    try:
        return str(Path(os.path.abspath(path)).relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def read_source(path: Path) -> YamlSource:
    """Read and parse `path`. Raises SpecError where reading had to stop, as `parse_source`."""
    name = display_path(path)
    try:
        raw = read_file(path, MAX_BYTES)
    except TooLargeError:
        raise SpecError([file_finding(name, 1, 1, "", *_TOO_LARGE)]) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecError(
            [file_finding(name, 1, 1, "", f"can't be read: {reason}", "name a readable file")]
        ) from error
    return parse_source(name, raw)


def parse_source(name: str, raw: bytes) -> YamlSource:
    """Parse `raw`, the content of the file shown as `name`. Raises SpecError with every finding so far where
    reading had to stop; what else is wrong is in the result's findings."""
    builder = _Builder(name)

    def refuse(line: int, column: int, message: str, remediation: str) -> SpecError:
        return SpecError([*builder.findings, file_finding(name, line, column, "", message, remediation)])

    if len(raw) > MAX_BYTES:
        raise refuse(1, 1, *_TOO_LARGE)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise refuse(
            line, column, f"byte 0x{raw[error.start]:02x} is not UTF-8", "save the file as UTF-8"
        ) from error
    document = read_nodes(text)
    root = builder.build(document)
    if builder.stopped:
        raise SpecError(builder.findings)
    if fault := document.fault:
        if fault.kind == "character":
            line, column = _position(text, fault.index)
            raise refuse(line, column, f"character {fault.said} is not allowed in YAML", "remove it")
        if conflict := _CONFLICT.search(text):
            raise refuse(
                _position(text, conflict.start())[0], 1, f"{conflict[0]}: a merge conflict is not resolved",
                "resolve it, and remove the lines with <<<<<<<, ======= and >>>>>>>",
            )  # fmt: skip
        # Something is never closed: where it opens helps more than the end of the file.
        since = fault.since if fault.index >= len(text) else None
        line, column = _position(text, fault.index if since is None else since)
        raise refuse(
            line, column, f"not YAML: {fault.said or fault.context or 'malformed'}", "correct the YAML"
        )
    return YamlSource(name, root.value, root, text, tuple(builder.findings), frozenset(builder.unread))


def _position(text: str, index: int) -> tuple[int, int]:
    """Line and column of the character at `index`, or of the last line's end where there is none. Lines end
    where the parser ends them (YAML 1.1)."""
    above = _LINE_END.split(text[:index])
    return len(above), len(above[-1]) + 1


class _Stop(Exception):
    """Nothing after this point of the file can be read."""


class _Builder:
    """Nodes to values, in the order in which they are written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.findings: list[Finding] = []
        self.unread: set[Loc] = set()
        self.stopped = False
        self.anchored: dict[int, _Node | None] = {}
        """What nodes with an anchor came to, by their id(); None while they are being built."""

    def build(self, document: YamlDocument) -> _Node:
        root = _Node(1, 1)
        with suppress(_Stop):
            if document.root is not None:
                root = self.node(document.root, (), 0)
            if after := document.following:
                self.stop(after, (), "a second document starts here", "write it to a separate file")
        return root

    def report(self, node: YamlNode, loc: Loc, message: str, remediation: str) -> None:
        self.findings.append(
            file_finding(self.name, node.line, node.column, path_text(loc), message, remediation)
        )

    def stop(self, node: YamlNode, loc: Loc, message: str, remediation: str) -> NoReturn:
        self.report(node, loc, message, remediation)
        self.stopped = True
        raise _Stop

    def node(self, read: YamlNode, loc: Loc, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            self.stop(read, (), f"nested deeper than {MAX_DEPTH} levels", "use fewer than 10 levels")
        if read.kind == "alias":
            return self.alias(read, loc)
        node = _Node(read.line, read.column)
        if read.anchor:
            self.anchored[id(read)] = None
        if read.kind == "scalar":
            node.value = self.scalar(read, loc)
            if isinstance(node.value, Unread):
                self.unread.add(loc)
        else:
            if read.tag not in (None, "!", _TAGS[read.kind]):
                self.report(read, loc, f"tag {read.tag} is not supported", "write the plain value")
            (self.sequence if read.kind == "list" else self.mapping)(node, read, loc, depth)
            if read.end < 0:
                raise _Stop
        if read.anchor:
            self.anchored[id(read)] = node
        return node

    def grow(self, node: _Node, child: _Node, read: YamlNode, loc: Loc) -> None:
        """Count `child` as part of `node`; asked after each child, before the next alias is expanded."""
        node.size += child.size
        if node.size > MAX_NODES:
            self.stop(
                read, loc, f"more than {MAX_NODES} values once aliases are expanded", "use fewer aliases"
            )

    def alias(self, read: YamlNode, loc: Loc) -> _Node:
        if id(read.target) not in self.anchored:
            self.stop(read, loc, f"no anchor &{read.text} before this alias", "define it earlier in the file")
        known = self.anchored[id(read.target)]
        if known is None:
            self.stop(read, loc, f"*{read.text} contains itself", "remove the alias")
        return known

    def sequence(self, node: _Node, read: YamlNode, loc: Loc, depth: int) -> None:
        node.value = []
        for index, item in enumerate(read.children):
            child = self.node(item, (*loc, index), depth + 1)
            node.children[index] = child
            node.value.append(child.value)
            self.grow(node, child, item, loc)

    def mapping(self, node: _Node, read: YamlNode, loc: Loc, depth: int) -> None:
        node.value = {}
        merged: list[_Node] = []
        for written, value in zip_longest(read.children[::2], read.children[1::2]):
            key = self.key(written, loc)
            if value is None:
                raise _Stop
            child = self.node(value, (*loc, key if key is not None else "?"), depth + 1)
            self.grow(node, child, written, loc)
            if key == "<<" and written.plain:
                merged.extend(self.merge_sources(written, child, loc))
            elif key is not None:
                if key in node.children:
                    line = node.keys[key][0]
                    self.report(
                        written,
                        (*loc, key),
                        f"key {key!r} appears twice, first in line {line}",
                        "keep one of them",
                    )
                    self.unread.add((*loc, key))
                node.value[key] = child.value
                node.children[key] = child
                node.keys[key] = (written.line, written.column)
        for source in merged:
            for name, place in source.keys.items():
                if name not in node.children:
                    child = source.children[name]
                    node.value[name], node.children[name], node.keys[name] = child.value, child, place

    def merge_sources(self, read: YamlNode, child: _Node, loc: Loc) -> list[_Node]:
        sources = list(child.children.values()) if isinstance(child.value, list) else [child]
        if all(isinstance(source.value, dict) for source in sources):
            return sources
        self.unread.add((*loc, "<<"))
        self.report(read, (*loc, "<<"), "a merge key needs a mapping", "write <<: *anchor of a mapping")
        return []

    def key(self, read: YamlNode, loc: Loc) -> str | None:
        if read.kind == "alias":
            self.stop(read, loc, "an alias as key", "write the key out")
        if read.kind != "scalar":
            self.stop(
                read,
                loc,
                "a mapping or list as key",
                "use a plain word; text with {{ needs quotes, and a template must be rendered first",
            )
        value = "<<" if read.text == "<<" else self.scalar(read, loc)
        if isinstance(value, Unread):
            return read.text
        if isinstance(value, str):
            return value
        self.unread.add((*loc, read.text))
        shown = read.text or "(empty)"
        self.report(
            read, loc, f"key {shown} is not text to every YAML parser", f'write "{read.text}" in quotes'
        )
        return None

    def scalar(self, read: YamlNode, loc: Loc) -> Any:
        if read.tag not in (None, "!", "tag:yaml.org,2002:str"):
            self.report(read, loc, f"tag {read.tag} is not supported", "write the plain value")
            return Unread()
        return read.text if read.style or read.tag else plain_value(read.text)
