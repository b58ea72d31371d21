"""The gaps in an environment file: what was cut out because it is broken, and what still holds without it.

The smallest broken part is cut: an entry, a field. A required field gets a neutral value instead, and no
finding may rest on that value. The module knows which fields are required, and no rule about values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupool.environment.spec.yaml_source import Loc, value_at

Place = Loc
"""A path that counts list items as the file does. A plain `Loc` counts them as the environment does, which
lacks the broken items; `Gaps.place` converts it. Only `Gaps.kept` tells the two apart, the type checker does
not."""

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
"""Values for required fields that are missing, so that their neighbours can be judged; 0 is any index. Where
another required field is missing, the section or list item without it is cut. The top level can't be cut:
each of its required fields needs a value here, except apiVersion and kind, without which nothing is read."""

_KEYED: Mapping[Loc, Any] = {
    ("pools", 0, "labels"): "",
    ("tenants", 0, "pools"): {},
    ("policies", "overrides"): "deny",
}
"""Values for broken values of these mappings, so that their keys can be judged."""


@dataclass(slots=True)
class Gaps:
    """What is broken. Questions name a `Loc` of the environment, the answers are stored by `Place`."""

    broken: set[Place] = field(default_factory=set)
    """Cut out, unread, or given a neutral value."""
    has_unknown_field: set[Place] = field(default_factory=set)
    """Mappings that contain a field the format does not define. The mapping itself was read completely, but
    the unknown field may be a misspelling of a missing one."""
    kept: dict[Place, list[int]] = field(default_factory=dict)
    """For each list with broken items, the indexes in the file of the items that are left."""
    _around: set[Place] = field(default_factory=set)
    """Every mapping and list that contains one of `broken`."""

    def add(self, place: Place) -> None:
        """Record that the value at `place` of the file is broken."""
        self.broken.add(place)
        self._around.update(place[:end] for end in range(len(place)))

    def place(self, loc: Loc) -> Place:
        """Where the file has what the environment has at `loc`."""
        place: Place = ()
        for part in loc:
            kept = self.kept.get(place) if isinstance(part, int) else None
            place = (*place, kept[part] if kept and isinstance(part, int) else part)
        return place

    def covers(self, loc: Loc) -> bool:
        """Whether nothing is known about `loc`: it is broken, or part of something broken."""
        place = self.place(loc)
        return any(place[:end] in self.broken for end in range(1, len(place) + 1))

    def touches(self, loc: Loc) -> bool:
        """Whether something about `loc` is unknown: it is broken, contains or is part of something broken."""
        return self.covers(loc) or self.place(loc) in self._around

    def has_unknown_field_at(self, loc: Loc) -> bool:
        """Whether the mapping at `loc` contains a field that the format does not define."""
        return self.place(loc) in self.has_unknown_field

    def cut(self, data: dict[str, Any], errors: Iterable[tuple[str, Loc]]) -> dict[str, Any]:
        """A copy of `data` without the parts that `errors` name; unchanged parts are shared.

        Each error is a kind and a path in `data` with at least one part; the kind is pydantic's, or "key" for
        a mapping's key.
        """
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
                self.has_unknown_field.add(place[:-1])
            else:
                self.add(place)
            if edit is _CUT and isinstance(target[-1], int):
                shorter.setdefault(target[:-1], set()).add(target[-1])
            _note(edits, target, edit)
        # `place` answers by `kept`, which must not change before the places of all errors are found.
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
    """The longest beginning of `loc` that exists in `data`."""
    for end, part in enumerate(loc):
        known = part in data if isinstance(data, dict) else isinstance(data, list)
        if not known:
            return loc[:end]
        data = data[part]
    return loc


def _note(edits: dict[str | int, Any], loc: Loc, edit: object) -> None:
    """Put `edit` into the tree `edits`; a part that is cut as a whole takes no other edit."""
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
