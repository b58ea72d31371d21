"""Whether an environment has something that the one before it never had.

The rule: each pool, and each other section as a whole, is as the source has it now or once had it. So a
target may lag behind, and may go back; it may not be ahead. Takes states, newest first; it does not depend on
their origin (Git).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpupool.review.promote.shape import Difference, Fields, differences


class PartStatus(StrEnum):
    """How a part of an environment compares with the source's."""

    same = "same"
    behind = "behind"
    ahead = "ahead"


@dataclass(frozen=True, slots=True)
class SourceState:
    """The source at one time."""

    label: str
    """When that was, in words: a commit with its day, or the file as it is."""
    parts: Mapping[str, Fields]


@dataclass(frozen=True, slots=True)
class JudgedPart:
    """One part of the target, judged."""

    part: str
    status: PartStatus
    since: str
    """The latest state of the source that it equals; empty where there is none."""
    differences: tuple[Difference, ...]
    """To the source's newest state."""


def standings(target: Mapping[str, Fields], states: Iterable[SourceState]) -> tuple[JudgedPart, ...]:
    """Each part of `target` judged. Takes of `states`, the newest first, no more than it needs."""
    found: dict[str, str] = {}
    newest: SourceState | None = None
    for state in states:
        newest = newest or state
        for part, fields in target.items():
            if part not in found and state.parts.get(part) == fields:
                found[part] = state.label
        if len(found) == len(target):
            break
    now = newest.parts if newest else {}
    return tuple(_standing(part, fields, now, found) for part, fields in target.items())


def _standing(part: str, fields: Fields, now: Mapping[str, Fields], found: Mapping[str, str]) -> JudgedPart:
    there = {part: now[part]} if part in now else {}
    differing = differences(there, {part: fields})
    # An empty section is never ahead: priorities are the one section that may be empty.
    status = (
        PartStatus.same
        if not differing
        else PartStatus.behind
        if part in found or not fields
        else PartStatus.ahead
    )
    return JudgedPart(part, status, found.get(part, ""), differing)
