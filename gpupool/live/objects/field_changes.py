"""Fields that differ between two versions of an object, as a reader wants to see them.

For display only; what takes a new object is decided elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from gpupool.live.objects.changes import MISSING, Path, by_identity, changes, format_path

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


def field_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], hidden: Collection[Path] = ()
) -> tuple[FieldChange, ...]:
    """The fields that differ between two versions of an object, without those below the paths in `hidden`."""
    return tuple(
        FieldChange(format_path(path), *(None if value is MISSING else value for value in pair))
        for path, *pair in changes(old, new, pairing=by_identity)
        if not any(path[: len(part)] == part for part in hidden)
    )


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
    place = next((place for place, (old, new) in pairs if old != new), 0)
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
