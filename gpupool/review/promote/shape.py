"""The pool-shaped part of an environment as plain values, and what of it differs between two environments.

Values have every default filled in, so that what is left out equals what is written out. Does not depend on
files and text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.environment.spec.environment import Environment
from gpupool.environment.spec.promotion import SECTIONS
from gpupool.review.promote.rules import PromotionRules

NAMED = ("pools", "priorities")
"""Sections whose items are identified by name; their order has no meaning."""

Loc = tuple[str, ...]
Fields = Mapping[str, Any]
"""Path of a field -> its value; only fields that do not stay."""
Shape = Mapping[str, Any]
"""Section -> its values; of pools and priorities name -> item."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs, or one whole pool or priority that only one side has."""

    part: str
    """The pool as `pools.NAME`, or the section."""
    path: str
    source: Any
    """None where it has none."""
    target: Any

    def __str__(self) -> str:
        return f"{self.path}: {_said(self.source)} -> {_said(self.target)}"


def _said(value: Any) -> str:
    if value is None:
        return "(none)"
    if isinstance(value, Mapping):
        return "(here)"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def shape_of(environment: Environment) -> Shape:
    """The sections that a promotion may carry, all defaults filled in."""
    dumped = environment.model_dump(mode="json", by_alias=True, exclude_none=True, include=_INCLUDED)
    return {
        section: _by_name(dumped[section]) if section in NAMED else dumped[section] for section in SECTIONS
    }


_INCLUDED = {"pools", "priorities", "policies", "queue", "gpu_operator", "karpenter"}


def _by_name(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {item["name"]: {key: value for key, value in item.items() if key != "name"} for item in items}


def leaves(value: Any, loc: Loc) -> Iterator[tuple[Loc, Any]]:
    """Every field of `value`, which is at `loc`; lists are fields as a whole."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*loc, key))
    else:
        yield loc, value


def path_of(loc: Loc) -> str:
    """`loc` as rules and people write it."""
    return ".".join(loc)


def parts(shape: Shape, rules: PromotionRules) -> dict[str, Fields]:
    """The parts that are compared as wholes: each pool, and each other section; without what stays.

    A pool that stays as such is not among them.
    """
    found: dict[str, Fields] = {}
    for section, value in shape.items():
        if section == "pools":
            for name, pool in value.items():
                if not rules.stays(f"pools.{name}"):
                    found[f"pools.{name}"] = fields(pool, ("pools", name), rules)
        elif section == "priorities":
            there = {name: item for name, item in value.items() if not rules.stays(f"priorities.{name}")}
            found[section] = {
                path: one
                for name, item in there.items()
                for path, one in fields(item, ("priorities", name), rules).items()
            }
        else:
            found[section] = fields(value, (section,), rules)
    return found


def fields(value: Any, loc: Loc, rules: PromotionRules) -> Fields:
    """Every field of `value`, which is at `loc`, that does not stay."""
    found = {path_of(inner): one for inner, one in leaves(value, loc)}
    return {path: one for path, one in found.items() if not rules.stays(path)}


def differences(source: Mapping[str, Fields], target: Mapping[str, Fields]) -> tuple[Difference, ...]:
    """What differs between the parts of two environments; a part that one lacks is one difference."""
    found: list[Difference] = []
    for part in [*source, *(part for part in target if part not in source)]:
        ours, theirs = source.get(part), target.get(part)
        if ours is None or theirs is None:
            found.append(Difference(part, part, ours, theirs))
            continue
        lone = _lone_items(part, ours, theirs)
        found += [Difference(part, path, *values) for path, values in lone.items()]
        found += [
            Difference(part, path, ours.get(path), theirs.get(path))
            for path in [*ours, *(path for path in theirs if path not in ours)]
            if ours.get(path) != theirs.get(path) and ".".join(path.split(".")[:2]) not in lone
        ]
    return tuple(found)


def _lone_items(part: str, ours: Fields, theirs: Fields) -> dict[str, tuple[Any, Any]]:
    """Priorities that one side lacks: their values there, None on the other side."""
    if part != "priorities":
        return {}
    sides = []
    for side in (ours, theirs):
        items: dict[str, dict[str, Any]] = {}
        for path, value in side.items():
            items.setdefault(".".join(path.split(".")[:2]), {})[path] = value
        sides.append(items)
    names = [name for name in {**sides[0], **sides[1]} if (name in sides[0]) != (name in sides[1])]
    return {name: (sides[0].get(name), sides[1].get(name)) for name in names}
