"""Where in a manifest's text a field is.

Only findings that are shown need it, so the text is read again: line by line where its indentation is enough
(`by_lines`), which is much faster, else by the parser. Judging must not depend on it: lines and columns are
for people.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from vapcheck.manifests.go_yaml import YamlError, compose
from vapcheck.manifests.plain_yaml import is_plain
from vapcheck.manifests.yaml_nodes import YamlNode

_PART = re.compile(r"""\.?([A-Za-z0-9_$-]+)|\[(\d+)\]|\[(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')\]""")


def parts(path: str) -> tuple[str | int, ...]:
    """`spec.containers[0].image` or `metadata.labels["a/b"]` as keys and indexes, up to the first part that
    has another form."""
    found: list[str | int] = []
    position = 0
    while match := _PART.match(path, position):
        word, index, double, single = match.groups()
        found.append(
            int(index) if index is not None else next(t for t in (word, double, single) if t is not None)
        )
        position = match.end()
    return tuple(found)


def place_in(text: str, base: tuple[str | int, ...], path: str) -> tuple[int, int]:
    """Line and column, from 1, of `path` below `base` in `text`: of the key in a mapping, of the item in a
    list. Where a part does not exist, of the innermost one that does."""
    wanted = (*base, *parts(path))
    return by_lines(text, wanted) or by_parser(text, wanted)


def by_parser(text: str, wanted: tuple[str | int, ...]) -> tuple[int, int]:
    """`place_in` for any text; 1, 1 if it is not YAML."""
    node = _root(text)
    if node is None:
        return 1, 1
    place = (node.line, node.column)
    for part in wanted:
        node = _target(node)
        found = _below(node, part)
        if found is None:
            break
        place, node = found
    return place


def rows_of_items(text: str, base: tuple[str | int, ...], count: int) -> list[int]:
    """The line in `text` at which each of the `count` items of the List at `base` begins; 1 for each if the
    text has another number of items."""
    quick = _item_rows(text, count) if not base else None
    if quick is not None:
        return quick
    node = _root(text)
    for part in (*base, "items"):
        found = _below(_target(node), part) if node is not None else None
        node = found[1] if found else None
    children = _target(node).children if node is not None else []
    if len(children) != count:
        return [1] * count
    return [_target(child).line if child.kind == "alias" else child.line for child in children]


@functools.lru_cache(maxsize=4)
def _root(text: str) -> YamlNode | None:
    try:
        return compose(text)[0]
    except YamlError:
        return None


def _target(node: YamlNode) -> YamlNode:
    """The node that an alias stands for; any other node itself."""
    return node.target if node.target is not None else node


def _below(node: YamlNode, part: str | int) -> tuple[tuple[int, int], YamlNode] | None:
    """Place and value of a key or item of `node`, or of a mapping that is merged into it.

    The last of several equal keys counts, so the pairs are searched from the end.
    """
    if isinstance(part, int):
        if node.kind == "list" and part < len(node.children):
            child = node.children[part]
            return (child.line, child.column), child
        return None
    if node.kind != "map":
        return None
    merged: YamlNode | None = None
    for key, value in zip(node.children[-2::-2], node.children[::-1][::2], strict=True):
        if key.text == part:
            return (key.line, key.column), value
        if key.text == "<<" and key.plain:
            merged = merged or value
    return _below(_target(merged), part) if merged is not None else None


@functools.lru_cache(maxsize=8)
def _plain_lines(text: str) -> list[str] | None:
    """The lines of a text whose structure follows from its indentation, None for any other.

    A first line that begins the document is replaced by an empty one, to keep the numbers of the others.
    """
    body = text[text.index("\n") + 1 :] if text.startswith("---") and "\n" in text else text
    if not is_plain(body):
        return None
    return ["", *body.split("\n")] if body is not text else body.split("\n")


def by_lines(text: str, wanted: tuple[str | int, ...]) -> tuple[int, int] | None:
    """`place_in` by the indentation of a plain text; None where only a parser can tell."""
    lines = _plain_lines(text)
    if lines is None:
        return None
    row, end = _content(lines, 0, len(lines)), len(lines)
    if row is None:
        return None
    # The value that is searched: from `row` to before `end`, indented by `column`; `first` is its first line,
    # with blanks in place of the dashes before it.
    column, first = _indent(lines[row]), lines[row]
    place = (row + 1, column + 1)
    for depth, part in enumerate(wanted):
        if first.lstrip().startswith(("[", "{")):
            return None
        search = _item if isinstance(part, int) else _key
        found = search(lines, row, end, column, first, part)
        if found is None:
            return place
        place, end = (found.row + 1, found.column + 1), found.end
        if isinstance(part, int):
            row, column, first = found.row, found.column, found.rest
            continue
        if found.rest.strip() and not found.rest.lstrip().startswith("#"):
            return place if depth == len(wanted) - 1 else None
        inner = _content(lines, found.row + 1, end)
        if inner is None:
            return place
        row, column, first = inner, _indent(lines[inner]), lines[inner]
    return place


class _Found(NamedTuple):
    """A key or an item; rows and columns are counted from 0."""

    row: int
    column: int
    end: int
    """The row after its value."""
    rest: str
    """What its line has after the key's colon; the whole line of an item, with a blank for its dash."""


def _key(lines: list[str], row: int, end: int, column: int, first: str, key: str | int) -> _Found | None:
    """A key of the mapping whose keys are at `column`; the last one of several equal keys."""
    starts = tuple(" " * column + form + ":" for form in (f"{key}", f'"{key}"', f"'{key}'"))
    found = None
    for index in range(row, end):
        line = first if index == row else lines[index]
        if line.startswith(starts):
            found = index, line[column:].partition(f"{key}")[2].lstrip("\"'")[1:]
    if found is None:
        return None
    at, rest = found
    return _Found(at, column, _block_end(lines, at + 1, end, column, dashes=True), rest)


def _item(lines: list[str], row: int, end: int, column: int, first: str, index: str | int) -> _Found | None:
    """The item `index` of a list whose dashes are at `column`."""
    dash, count = " " * column + "- ", -1
    for number in range(row, end):
        line = first if number == row else lines[number]
        if line.startswith(dash):
            count += 1
            if count == index:
                rest = " " * column + "  " + line[column + 2 :]
                return _Found(number, column + 2, _block_end(lines, number + 1, end, column), rest)
    return None


def _block_end(lines: list[str], row: int, end: int, column: int, *, dashes: bool = False) -> int:
    """The first row from `row` on that is not indented deeper than `column`.

    With `dashes`, the items of a list at `column` itself belong to the block too: YAML lets a list be
    indented like its key.
    """
    for number in range(row, end):
        line = lines[number]
        stripped = line.lstrip(" ")
        if stripped and stripped[0] != "#":
            indent = len(line) - len(stripped)
            if indent < column or (indent == column and not (dashes and stripped.startswith("- "))):
                return number
    return end


def _content(lines: list[str], row: int, end: int) -> int | None:
    """The first row that is neither empty nor a comment."""
    for number in range(row, end):
        stripped = lines[number].strip()
        if stripped and stripped[0] != "#":
            return number
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _item_rows(text: str, count: int) -> list[int] | None:
    """`rows_of_items` for plain texts."""
    lines = _plain_lines(text)
    place = by_lines(text, ("items",)) if lines is not None else None
    if lines is None or place is None or place[1] != 1:
        return None
    row = _content(lines, place[0], len(lines))
    if row is None:
        return None
    column = _indent(lines[row])
    dash = " " * column + "- "
    end = _block_end(lines, place[0], len(lines), 0, dashes=True)
    rows = [number + 1 for number in range(row, end) if lines[number].startswith(dash)]
    return rows if len(rows) == count else None
