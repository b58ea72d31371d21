"""The gaps in an environment file: what was cut out because it is broken, and what still holds without it.

A broken part is cut where it is smallest: an entry, a field. What the format needs gets a neutral value in
its place, and nothing may be said of that. Knows the fields that can't be left out, and no rule about values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupool.environment.spec.yaml_source import Loc, value_at

_NEUTRAL: Mapping[Loc, Any] = {
    ("metadata",): {"name": "x"},
    ("metadata", "name"): "x",
    ("cluster",): {"platform": "local", "name": "x"},
    ("cluster", "platform"): "local",
    ("cluster", "name"): "x",
    ("pools", 0, "name"): "x",
    ("pools", 0, "gpu"): "",
    ("pools", 0, "nodes"): {},
    ("priorities", 0, "name"): "x",
    ("priorities", 0, "value"): 0,
    ("priorities", 0, "level"): "low",
    ("tenants", 0, "name"): "x",
    ("tenants", 0, "namespace"): "x",
    ("tenants", 0, "budget", "usd"): 0,
    ("tenants", 0, "projects", 0, "name"): "x",
    ("tenants", 0, "projects", 0, "budget", "usd"): 0,
    ("policies", "waivers", 0, "owner"): "x",
    ("policies", "waivers", 0, "reason"): "x",
    ("policies", "waivers", 0, "until"): "9999-12-31",
    ("promotion", "exceptions", 0, "reason"): "x",
    ("promotion", "exceptions", 0, "until"): "9999-12-31",
    ("monitoring", "assertion", "image"): "x:1",
}
"""What stands in for a field that must be there, so that its neighbours can be judged; 0 is any index. Around
every other such field the whole section or item is left out."""

_KEYED: Mapping[Loc, Any] = {
    ("pools", 0, "labels"): "",
    ("tenants", 0, "pools"): {},
    ("policies", "overrides"): "deny",
}
"""What stands in for a broken value whose key is judged by itself."""


@dataclass(slots=True)
class Gaps:
    """What is broken. Places are asked for as the environment counts them, and kept as the file does."""

    broken: set[Loc] = field(default_factory=set)
    """Cut out, unread, or given a neutral value."""
    strayed: set[Loc] = field(default_factory=set)
    """Where fields stand that there are not. What is read is whole without them, but one of them may be meant
    for a field that is missing."""
    kept: dict[Loc, list[int]] = field(default_factory=dict)
    """Of each list that was cut, the file's index of what is left."""
    _around: set[Loc] = field(default_factory=set)
    """Everything that one of `broken` is part of."""

    def add(self, place: Loc) -> None:
        """Record that the value at `place` of the file is broken."""
        self.broken.add(place)
        self._around.update(place[:end] for end in range(len(place)))

    def place(self, loc: Loc) -> Loc:
        """`loc` of the environment as the file counts."""
        place: Loc = ()
        for part in loc:
            kept = self.kept.get(place) if isinstance(part, int) else None
            place = (*place, kept[part] if kept and isinstance(part, int) else part)
        return place

    def covers(self, loc: Loc) -> bool:
        """Whether nothing is known of `loc`: it is broken, or part of something that is."""
        place = self.place(loc)
        return any(place[:end] in self.broken for end in range(1, len(place) + 1))

    def touches(self, loc: Loc) -> bool:
        """Whether not all is known of `loc`: it or a part of it is broken, or it is part of what is."""
        return self.covers(loc) or self.place(loc) in self._around

    def strays(self, loc: Loc) -> bool:
        """Whether a field that there is not stands at `loc`."""
        return self.place(loc) in self.strayed

    def cut(self, data: dict[str, Any], errors: Iterable[tuple[str, Loc]]) -> dict[str, Any]:
        """`data` without what `errors`, each a kind and a place in `data`, are about; a copy that shares what
        it can. The kind is pydantic's, or "key" for a mapping's key."""
        edits: dict[str | int, Any] = {}
        shorter: dict[Loc, set[int]] = {}
        for kind, loc in errors:
            edit: object
            pattern = tuple(0 if isinstance(part, int) else part for part in loc)
            if kind == "missing":
                neutral = _NEUTRAL.get(pattern)
                target, edit = (loc[:-1], _CUT) if neutral is None else (loc, _Put(neutral))
            elif kind != "key" and pattern[:-1] in _KEYED:
                target, edit = loc, _Put(_KEYED[pattern[:-1]])
            else:
                target, edit = _existing(data, loc), _CUT
            place = self.place(target)
            if kind == "extra_forbidden":
                self.strayed.add(place[:-1])
            else:
                self.add(place)
            if edit is _CUT and isinstance(target[-1], int):
                shorter.setdefault(target[:-1], set()).add(target[-1])
            _note(edits, target, edit)
        # Only now: the places above are those before anything was cut.
        moved = {
            self.place(loc): [self.place((*loc, at))[-1] for at in _rest(data, loc, gone)]
            for loc, gone in shorter.items()
        }
        self.kept.update({place: [int(at) for at in kept] for place, kept in moved.items()})
        result: dict[str, Any] = _edited(data, edits)
        return result


_CUT = object()


@dataclass(frozen=True, slots=True)
class _Put:
    value: Any


def _rest(data: Any, loc: Loc, gone: set[int]) -> list[int]:
    return [at for at in range(len(value_at(data, loc))) if at not in gone]


def _existing(data: Any, loc: Loc) -> Loc:
    """The longest part of `loc` that `data` has."""
    for end, part in enumerate(loc):
        known = part in data if isinstance(data, dict) else isinstance(data, list)
        if not known:
            return loc[:end]
        data = data[part]
    return loc


def _note(edits: dict[str | int, Any], loc: Loc, edit: object) -> None:
    """Put `edit` into the tree `edits`; what is cut as a whole needs no other edit."""
    for part in loc[:-1]:
        edits = edits.setdefault(part, {})
        if not isinstance(edits, dict):
            return
    if edit is _CUT or loc[-1] not in edits:
        edits[loc[-1]] = edit


def _edited(data: Any, edits: Mapping[str | int, Any]) -> Any:
    items = data.items() if isinstance(data, dict) else enumerate(data)
    left = {
        key: _edited(value, edits[key]) if isinstance(edits.get(key), dict) else value
        for key, value in items
        if edits.get(key) is not _CUT
    }
    if not isinstance(data, dict):
        return list(left.values())
    return left | {key: edit.value for key, edit in edits.items() if isinstance(edit, _Put)}
