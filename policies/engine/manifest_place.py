"""Where in a manifest's text a field stands; asked only for what is shown, so the text is read again.

It must not be needed for judging: lines and columns are for people.
"""

from __future__ import annotations

import functools
import re

from policies.engine.go_yaml import Node, YamlError, compose

_PART = re.compile(r"""\.?([A-Za-z0-9_$-]+)|\[(\d+)\]|\[(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')\]""")


def parts(path: str) -> tuple[str | int, ...]:
    """`spec.containers[0].image` or `metadata.labels["a/b"]` as keys and indexes; what isn't a path of that
    form ends it."""
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
    """Line and column of `path` below `base` in `text`: of the key in an object, of the item in a list; of
    the innermost part that is there."""
    node = _root(text)
    if node is None:
        return 1, 1
    place = (node.line, node.column)
    for part in (*base, *parts(path)):
        node = _target(node)
        found = _below(node, part)
        if found is None:
            break
        place, node = found
    return place


def rows_of_items(text: str, count: int) -> list[int]:
    """The line in `text` at which each of the `count` items of a List begins."""
    node = _root(text)
    found = _below(_target(node), "items") if node is not None else None
    children = _target(found[1]).children if found else []
    if len(children) != count:
        return [1] * count
    return [_target(child).line if child.kind == "alias" else child.line for child in children]


@functools.lru_cache(maxsize=4)
def _root(text: str) -> Node | None:
    try:
        return compose(text)[0]
    except YamlError:
        return None


def _target(node: Node) -> Node:
    return node.target if node.target is not None else node


def _below(node: Node, part: str | int) -> tuple[tuple[int, int], Node] | None:
    if isinstance(part, int):
        if node.kind == "list" and part < len(node.children):
            child = node.children[part]
            return (child.line, child.column), child
        return None
    if node.kind != "map":
        return None
    merged: Node | None = None
    for key, value in zip(node.children[-2::-2], node.children[::-1][::2], strict=True):
        if key.text == part:
            return (key.line, key.column), value
        if key.text == "<<" and key.plain:
            merged = merged or value
    return _below(_target(merged), part) if merged is not None else None
