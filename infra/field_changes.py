"""Which fields differ between two versions of an object, as a reader wants to see it.

Unlike the engine's own comparison (`pulumi_diff`), which goes place by place, items of a list are matched
by what they are: by name or key, else as a whole. So a toleration more is one line, not one for each that
moved. For display only; what takes a new object is decided elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from gpupool.pulumi_plugins.diff import MISSING, Change, Path, changes, format_path
from infra.apply import FIELD_MANAGER_ANNOTATION

_HIDDEN = (("metadata", "annotations", FIELD_MANAGER_ANNOTATION), ("__defaults",))
_IDENTITIES = ("name", "key")
_SHORTEN = 60
"""Two longer values are shown where they differ."""
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that differs; None stands for a field that is not there."""

    path: str
    old: Any
    new: Any

    def __str__(self) -> str:
        old, new = self.old, self.new
        if isinstance(old, str) and isinstance(new, str) and ("\n" in old or "\n" in new):
            old, new = _differing_lines(old, new)
        before, after = _line(old), _line(new)
        if max(len(before), len(after)) > _SHORTEN and None not in (old, new):
            before, after = _differing_words(before, after)
        return f"{self.path}: {_short(before)} -> {_short(after)}"


def field_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[FieldChange, ...]:
    """The fields that differ between two versions of an object's inputs."""
    return tuple(
        FieldChange(format_path(path), *(None if value is MISSING else value for value in pair))
        for path, *pair in _differences(old, new, ())
        if not any(path[: len(hidden)] == hidden for hidden in _HIDDEN)
    )


def _differences(old: Any, new: Any, path: Path) -> Iterator[Change]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _differences(old.get(key, MISSING), new.get(key, MISSING), (*path, key))
    elif are_items(old) and are_items(new):
        yield from list(_of_items(old, new, path)) or changes(old, new, path)
    else:
        yield from changes(old, new, path)


def are_items(value: Any) -> bool:
    """Whether it is a list of mappings."""
    return isinstance(value, list) and all(isinstance(item, Mapping) for item in value)


def _of_items(old: list[Any], new: list[Any], path: Path) -> Iterator[Change]:
    """Items removed, changed and added. Nothing where the lists differ in their order alone."""
    identity = next((name for name in _IDENTITIES if _identifies(name, old) and _identifies(name, new)), None)
    if identity is None:
        yield from (
            Change((*path, place), item, MISSING) for place, item in enumerate(old) if item not in new
        )
        yield from (
            Change((*path, place), MISSING, item) for place, item in enumerate(new) if item not in old
        )
        return
    before = {item[identity]: item for item in old}
    after = {item[identity] for item in new}
    for place, item in enumerate(old):
        if item[identity] not in after:
            yield Change((*path, place), item, MISSING)
    for place, item in enumerate(new):
        known = before.get(item[identity])
        if known is None:
            yield Change((*path, place), MISSING, item)
        else:
            yield from _differences(known, item, (*path, place))


def _identifies(name: str, items: list[Any]) -> bool:
    """Whether every item has a text of its own under `name`."""
    values = [item.get(name) for item in items]
    return all(isinstance(value, str) for value in values) and len(set(values)) == len(values)


def _differing_lines(old: str, new: str) -> tuple[str, str]:
    """The lines of two texts that are not in the other one: what a reader looks for in a file's change."""
    before, after = old.splitlines(), new.splitlines()
    gone = [line.strip() for line in before if line not in after]
    come = [line.strip() for line in after if line not in before]
    return "; ".join(gone) or "(nothing)", "; ".join(come) or "(nothing)"


def _differing_words(old: str, new: str) -> tuple[str, str]:
    """Two long texts where they differ, with the word before and after; `...` stands for what both have."""
    before, after = old.split(" "), new.split(" ")
    shown: tuple[list[str], list[str]] = ([], [])
    groups = SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(1)
    for group in groups:
        for words, text, first, last in (
            (before, shown[0], group[0][1], group[-1][2]),
            (after, shown[1], group[0][3], group[-1][4]),
        ):
            text += ["..."] if first and text[-1:] != ["..."] else []
            text += words[first:last]
            text += ["..."] if last < len(words) else []
    return _apart(" ".join(shown[0]), " ".join(shown[1]))


def _apart(before: str, after: str) -> tuple[str, str]:
    """Two texts of which the first difference is too far back to be seen, from shortly before it."""
    pairs = enumerate(zip_longest(before, after))
    place = next((place for place, (one, other) in pairs if one != other), 0)
    if place < _SHORTEN:
        return before, after
    start = place - _SHORTEN // 3
    return f"...{before[start:]}", f"...{after[start:]}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _line(value: Any) -> str:
    if value is None:
        return "(none)"
    if isinstance(value, Mapping) and value:
        text = ", ".join(f"{key}: {_flow(part)}" for key, part in value.items())
    else:
        text = _flow(value)
    return text.replace("\n", "\\n")


def _flow(value: Any) -> str:
    """A value as YAML writes it on one line; a text as it is."""
    if isinstance(value, str):
        return value or '""'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return json.dumps(value, default=str)
