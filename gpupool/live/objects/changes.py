"""The one comparison of two values of an object's fields, and how a field's path is written.

Items of lists are paired by place, as Pulumi's engine compares them, or by what identifies them, as a reader
wants to see it: a toleration more is then one change, not one for each that moved. A manifest beside what a
server made of it is compared in `live`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

Step = str | int
Path = tuple[Step, ...]
Kind = Literal["add", "delete", "update"]
MISSING: Any = object()
_IDENTITIES = ("name", "key")
"""Fields that tell the items of a list apart, the first that does."""


class Change(NamedTuple):
    """One field that differs."""

    path: Path
    old: Any
    """MISSING where it was not there."""
    new: Any
    """MISSING where it is no longer there."""

    @property
    def kind(self) -> Kind:
        return "add" if self.old is MISSING else "delete" if self.new is MISSING else "update"

    @property
    def text(self) -> str:
        """The path as Pulumi writes it."""
        return format_path(self.path)


Pair = tuple[int, Any, Any]
"""The place of an item, and what it is in the old and in the new list."""
Pairing = Callable[[list[Any], list[Any]], Iterator[Pair]]


def by_place(old: list[Any], new: list[Any]) -> Iterator[Pair]:
    """The first item with the first, and so on."""
    for place, (before, after) in enumerate(zip_longest(old, new, fillvalue=MISSING)):
        yield place, before, after


def by_identity(old: list[Any], new: list[Any]) -> Iterator[Pair]:
    """Mappings by name or key, else those that are equal: first what goes, then what stays and comes. Lists
    of other values, and lists that differ in their order alone, by place."""
    pairs = list(_identified(old, new)) if are_items(old) and are_items(new) else []
    yield from pairs if any(before != after for _, before, after in pairs) else by_place(old, new)


def changes(old: Any, new: Any, path: Path = (), pairing: Pairing = by_place) -> Iterator[Change]:
    """Every leaf that differs, and every item that has no partner; numbers are compared by value."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from changes(old.get(key, MISSING), new.get(key, MISSING), (*path, key), pairing)
    elif isinstance(old, list) and isinstance(new, list):
        for place, before, after in pairing(old, new):
            yield from changes(before, after, (*path, place), pairing)
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        yield Change(path, old, new)


def are_items(value: Any) -> bool:
    """Whether it is a list of mappings."""
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _identified(old: list[Any], new: list[Any]) -> Iterator[Pair]:
    identity = next((name for name in _IDENTITIES if _identifies(name, old) and _identifies(name, new)), None)
    if identity is None:
        yield from ((place, item, MISSING) for place, item in enumerate(old) if item not in new)
        yield from ((place, MISSING, item) for place, item in enumerate(new) if item not in old)
        return
    before = {item[identity]: item for item in old}
    after = {item[identity] for item in new}
    yield from ((place, item, MISSING) for place, item in enumerate(old) if item[identity] not in after)
    yield from ((place, before.get(item[identity], MISSING), item) for place, item in enumerate(new))


def _identifies(name: str, items: list[Any]) -> bool:
    """Whether every item has a text of its own under `name`."""
    values = [item.get(name) for item in items]
    return all(isinstance(value, str) for value in values) and len(set(values)) == len(values)


def format_path(path: Path) -> str:
    """A path as Pulumi's property paths: dots, [index], and ["key"] for keys that need quotes."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif any(character in '."[]' for character in step):
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
        else:
            text += f".{step}" if text else step
    return text
