"""Changing a YAML text by its places: what is not changed stays as it is, byte for byte, comments included.

One change at a time on the text itself; nothing is loaded and dumped, because that would reformat lines that
did not change. For text that `gpupool.environment.spec.yaml_source` has accepted: shallow, one document, no
cycles.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from gpupool.environment.spec.yaml_scalars import Unclear, plain_value
from gpupool.environment.spec.yaml_source import Loc
from gpupool.findings import GpupoolError
from vapcheck import Pair, YamlNode, read_nodes

_PLAIN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9_./@+*-]*( [A-Za-z0-9_./@+-]+)*")


class SharedValueError(GpupoolError):
    """A value that comes from an alias: changing it here would change it elsewhere."""


def flow_text(value: Any) -> str:
    """`value` in one piece, as `{mode: mig, layout: {1g.10gb: 7}}`."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow_text(str(key))}: {flow_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow_text, value)) + "]"
    if isinstance(value, Unclear):
        return value.text
    if isinstance(value, str) and _PLAIN.fullmatch(value) and plain_value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


class Text:
    """A text that changes, with its nodes."""

    def __init__(self, text: str) -> None:
        self._read(text)
        self.newline = "\r\n" if "\r\n" in text else "\n"

    def node(self, loc: Loc) -> YamlNode | None:
        node: YamlNode | None = self.root
        for part in loc:
            node = node.below(part) if node else None
        return node

    def piece(self, node: YamlNode) -> str:
        """`node` as it is written."""
        return self.text[node.start : node.end]

    def line_start(self, index: int) -> int:
        return self.text.rfind("\n", 0, index) + 1

    def line_end(self, index: int) -> int:
        """Where the line of `index` ends, its line break not included."""
        end = self.text.find("\n", index)
        end = len(self.text) if end < 0 else end
        return end - 1 if self.text[max(end - 1, 0) : end] == "\r" else end

    def column(self, index: int) -> int:
        return index - self.line_start(index)

    def lines_of(self, node: YamlNode) -> str:
        """The lines of a list's block item, dash and comment at their end included, moved to column 0."""
        start = self._dash(node)
        lines = self.text[start : self.line_end(node.end)].splitlines()
        column = self.column(start)
        return "\n".join([lines[0], *(_moved(line, -column) for line in lines[1:])])

    def set(self, loc: Loc, text: str, after: Callable[[str], bool] = lambda _: True) -> None:
        """Let the key at `loc` have the value `text`, which is in one piece.

        A new key goes behind the last key that `after` accepts, else in front.
        """
        parent, key = self._mapping(loc[:-1]), str(loc[-1])
        pair = parent.pair(key)
        if pair is None:
            self._insert(parent, f"{flow_text(key)}: {text}", after)
            return
        start = pair.value.start
        between = self.text[pair.key.end : start]
        if "\n" in between and not between.strip(" \t\r\n:"):
            # A block that began in the next line: what stands there now fits in this one.
            self._replace(pair.key.end, pair.value.end, f": {text}")
        else:
            space = "" if between.endswith((" ", "\n")) else " "
            self._replace(start, pair.value.end, space + text)

    def delete(self, loc: Loc) -> None:
        """Remove the key at `loc`, and its parents if they become empty."""
        parent = self._mapping(loc[:-1])
        at = next((index for index, pair in enumerate(parent.pairs) if pair.key.text == loc[-1]), None)
        if at is None:
            raise SharedValueError(
                f"line {self._line(parent.start)}: {loc[-1]} comes from a merge key (<<) and can't be "
                "removed here; write the mapping out, then promote"
            )
        if len(parent.pairs) == 1 and len(loc) > 1:
            self.delete(loc[:-1])
        elif parent.flow:
            self._cut([(pair.key.start, pair.value.end) for pair in parent.pairs], at)
        else:
            pair = parent.pairs[at]
            start = self.line_start(pair.key.start)
            if self.text[start : pair.key.start].strip() and at + 1 < len(parent.pairs):
                self._replace(pair.key.start, parent.pairs[at + 1].key.start, "")
            else:
                self._delete_lines(start, pair.value.end)

    def insert_item(self, loc: Loc, at: int, lines: str, piece: str) -> None:
        """Put an item at index `at` of the list: `lines` (from `lines_of`, or a dash and what follows) where
        that is a block, `piece` where it is in one piece."""
        node = self._list(loc)
        if not node.children and len(loc) == 1 and not self.root.flow:
            indented = self.newline + _indented(lines, 2, self.newline)
            pair = self._pair(loc)
            self._replace(pair.key.end, pair.value.end, f":{indented}")
        elif node.flow and at < len(node.children):
            self._replace(node.children[at].start, node.children[at].start, f"{piece}, ")
        elif node.flow:
            last = node.children[-1].end if node.children else node.start + 1
            self._replace(last, last, f", {piece}" if node.children else piece)
        else:
            column = self.column(self._dash(node.children[0]))
            written = _indented(lines, column, self.newline)
            if at == 0:
                place = self.line_start(self._dash(node.children[0]))
                self._replace(place, place, written + self.newline)
            else:
                place = self.line_end(node.children[at - 1].end)
                self._replace(place, place, self.newline + written)

    def delete_item(self, loc: Loc, at: int) -> None:
        """Remove an item of a list, with the comment lines above it."""
        node = self._list(loc)
        if node.flow:
            self._cut([(item.start, item.end) for item in node.children], at)
        elif len(node.children) == 1:
            pair = self._pair(loc)
            self._replace(pair.key.end, self.line_end(pair.value.end), ": []")
        else:
            item = node.children[at]
            self._delete_lines(self.line_start(self._dash(item)), item.end)

    def _mapping(self, loc: Loc) -> YamlNode:
        node = self.root
        for depth, part in enumerate(loc):
            inner = node.below(part)
            if inner is not None and inner.kind == "alias":
                self._refuse(inner)
            if inner is None or inner.kind == "scalar":
                self.set(loc[: depth + 1], "{}")
                return self._mapping(loc)
            node = inner
        return node

    def _list(self, loc: Loc) -> YamlNode:
        node = self.node(loc)
        if node is None or node.kind == "scalar":
            self.set(loc, "[]")
            return self._list(loc)
        if node.kind == "alias":
            self._refuse(node)
        return node

    def _refuse(self, node: YamlNode) -> None:
        raise SharedValueError(
            f"line {self._line(node.start)}: {self.piece(node)} refers to a value elsewhere in the file; "
            "write it out here, then promote"
        )

    def _pair(self, loc: Loc) -> Pair:
        pair = self._mapping(loc[:-1]).pair(str(loc[-1]))
        assert pair is not None
        return pair

    def _line(self, index: int) -> int:
        return self.text.count("\n", 0, index) + 1

    def _dash(self, item: YamlNode) -> int:
        """Where the dash of a block item stands: in its line, or above comments between the two."""
        start, end = self.line_start(item.start), item.start
        while not (dash := re.match(r"[ \t]*-(?=\s)", self.text[start:end])):
            end, start = start, self.line_start(start - 1)
        return start + dash.end() - 1

    def _insert(self, parent: YamlNode, written: str, after: Callable[[str], bool]) -> None:
        before = [pair for pair in parent.pairs if after(pair.key.text)]
        if not parent.pairs and parent.flow:
            self._replace(parent.start, parent.end, f"{{{written}}}")
        elif parent.flow and before:
            self._replace(before[-1].value.end, before[-1].value.end, f", {written}")
        elif before:
            end = self.line_end(before[-1].value.end)
            indent = " " * self.column(parent.pairs[0].key.start)
            self._replace(end, end, f"{self.newline}{indent}{written}")
        else:
            first = parent.pairs[0].key.start
            indent = " " * self.column(first)
            rest = ", " if parent.flow else self.newline + indent
            start = self.line_start(first)
            if not parent.flow and not self.text[start:first].strip():
                # A comment above the first key belongs to that key.
                start = self._with_comments(start)
                self._replace(start, start, f"{indent}{written}{self.newline}")
            else:
                self._replace(first, first, written + rest)

    def _cut(self, ranges: list[tuple[int, int]], at: int) -> None:
        """Remove one comma-separated item, with its comma."""
        start, end = ranges[at]
        if at + 1 < len(ranges):
            self._replace(start, ranges[at + 1][0], "")
        else:
            self._replace(ranges[at - 1][1] if at else start, end, "")

    def _delete_lines(self, start: int, last: int) -> None:
        end = self.line_end(last)
        end += len(self.newline) if self.text.startswith(self.newline, end) else 0
        self._replace(self._with_comments(start), end, "")

    def _with_comments(self, start: int) -> int:
        """Where the comment begins that stands above the line at `start`, as far in as that line."""
        indent = re.match(r"[ \t]*", self.text[start:])
        while start and indent:
            above = self.line_start(start - 1)
            if not self.text.startswith(f"{indent[0]}#", above):
                break
            start = above
        return start

    def _replace(self, start: int, end: int, text: str) -> None:
        self._read(self.text[:start] + text + self.text[end:])

    def _read(self, text: str) -> None:
        self.text = text
        self.root = read_nodes(text).root or YamlNode("scalar", start=len(text), end=len(text))


def _moved(line: str, columns: int) -> str:
    """`line` with that much more or less space before it."""
    if columns >= 0:
        return " " * columns + line if line else line
    space = len(line) - len(line.lstrip(" "))
    return line[min(space, -columns) :]


def _indented(lines: str, columns: int, newline: str) -> str:
    return newline.join(_moved(line, columns) for line in lines.splitlines())
