"""Why counts of MIG instances don't fit on one GPU: one sentence that names the real cause.

Explains what `placement` decides; holds no placement rule of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpupool.environment.catalog.models import Mig, Profile
from gpupool.environment.sharing.placement import (
    Counts,
    Placed,
    compute_used,
    display_order,
    engines_used,
    place,
)


def explain(mig: Mig, counts: Counts) -> str:
    """The real cause for counts that don't fit: the first limit broken, or the places that are missing."""
    asked = [(profile, count) for profile, count in zip(mig.profiles, counts, strict=True) if count]
    for profile, count in asked:
        if count > profile.max_count:
            return f"{count} x {profile.name} requested, but one GPU has at most {profile.max_count}"
    slices = sum(profile.size * count for profile, count in asked)
    compute = compute_used(mig, counts)
    if slices > mig.slots:
        sizes = " + ".join(
            f"{count} x {profile.name} ({profile.size}{' each' if count > 1 else ''})"
            for profile, count in reversed(asked)
        )
        enough = compute <= mig.compute_slices
        rest = f"; compute slices would be enough ({compute} of {mig.compute_slices})" if enough else ""
        return f"{sizes} need {slices} memory slices and the GPU has {mig.slots}{rest}"
    if compute > mig.compute_slices:
        cause = f"{_list(asked)} need {compute} compute slices and the GPU has {mig.compute_slices}"
        return cause if place(mig, counts) else f"{cause}; {_no_legal_start(mig, counts)}"
    budget = mig.engine_budget or {}
    short = [engine for engine, used in engines_used(mig, counts).items() if used > budget[engine]]
    if short:
        engine = short[0]
        return (
            f"{_list(asked)} take {engines_used(mig, counts)[engine]} {engine.upper()} engines"
            f" and the GPU has {budget[engine]}"
        )
    return _no_legal_start(mig, counts)


def _no_legal_start(mig: Mig, counts: Counts) -> str:
    """Names the instance that finds no place once as much as possible of the rest is placed."""
    placed, left = _fullest(mig, counts)
    occupied = sum(((1 << item.size) - 1) << item.start for item in placed)
    free = [slot for slot in range(mig.slots) if not occupied >> slot & 1]
    starts = ", ".join(str(start) for start in left.starts)
    at: dict[str, list[str]] = {}
    for item in placed:
        at.setdefault(item.profile, []).append(str(item.start))
    beside = " and ".join(f"{name} at {', '.join(where)}" for name, where in at.items())
    only = f"slice {free[0]} is" if len(free) == 1 else f"slices {', '.join(map(str, free))} are"
    width = "1 memory slice" if left.size == 1 else f"{left.size} memory slices"
    return f"{left.name} takes {width} and may start only at {starts}, but beside {beside} only {only} free"


def _fullest(mig: Mig, counts: Counts) -> tuple[tuple[Placed, ...], Profile]:
    """The placement of all but as few slices as possible, and the smallest profile that stays out."""
    waiting = [counts]
    while waiting:
        smaller = []
        for current in waiting:
            for index in display_order(mig)[::-1]:
                if not current[index]:
                    continue
                reduced = (*current[:index], current[index] - 1, *current[index + 1 :])
                placement = place(mig, reduced)
                if placement is not None:
                    return placement, mig.profiles[index]
                smaller.append(reduced)
        waiting = list(dict.fromkeys(smaller))
    raise AssertionError("a single instance always fits")


def _list(asked: Sequence[tuple[Profile, int]]) -> str:
    return " + ".join(f"{count} x {profile.name}" for profile, count in reversed(asked))
