"""The MIG placement solver: which sets of instances fit on one GPU, and where.

A GPU is a row of memory slices. An instance of a profile takes `size` slices side by side and may begin
only at the starts that the catalog lists, so a set that fits by counting slices may still have no place
(two 3g and one 1g on an A100). Everything here works on bit masks of that row and on count vectors in the
order of `mig.profiles`. It knows no names, reasons or layouts of users; those are in `verdict`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from gpupool.environment.catalog.models import Mig, Profile

Counts = tuple[int, ...]
"""Instances per profile, in the order of `mig.profiles`."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One instance on the row of memory slices."""

    profile: str
    start: int
    size: int


def masks(profile: Profile) -> tuple[int, ...]:
    """The slices that an instance occupies, as bits, for each start the profile may have."""
    block = (1 << profile.size) - 1
    return tuple(block << start for start in profile.starts)


def place(mig: Mig, counts: Sequence[int]) -> tuple[Placed, ...] | None:
    """Exact placement by backtracking, lowest starts first; None when there is none.

    Only memory slices decide here; maxima and budgets are `within_limits`.
    """
    profiles = sorted(
        (profile for profile, count in zip(mig.profiles, counts, strict=True) for _ in range(count)),
        key=lambda profile: (-profile.size, len(profile.starts), profile.nvml_id or 0),
    )

    def search(index: int, occupied: int, floor: int) -> list[Placed] | None:
        if index == len(profiles):
            return []
        profile = profiles[index]
        for start, mask in zip(profile.starts, masks(profile), strict=True):
            if start < floor or occupied & mask:
                continue
            # Twins are interchangeable: the next one of the same profile only looks further to the right.
            twin = index + 1 < len(profiles) and profiles[index + 1] is profile
            rest = search(index + 1, occupied | mask, start + 1 if twin else 0)
            if rest is not None:
                return [Placed(profile.name, start, profile.size), *rest]
        return None

    placed_objects = search(0, 0, 0)
    return None if placed_objects is None else tuple(sorted(placed_objects, key=lambda placed: placed.start))


def engines_used(mig: Mig, counts: Sequence[int]) -> dict[str, int]:
    """Media engines that the instances take together; empty for a model without an engine budget."""
    return {
        engine: sum(
            count * (profile.engines or {}).get(engine, 0)
            for profile, count in zip(mig.profiles, counts, strict=True)
        )
        for engine in mig.engine_budget or {}
    }


def within_limits(mig: Mig, counts: Sequence[int]) -> bool:
    """Whether per-profile maxima, compute slices and media engines allow the counts, wherever they are
    placed.
    """
    budget = mig.engine_budget or {}
    return (
        all(count <= profile.max_count for profile, count in zip(mig.profiles, counts, strict=True))
        and compute_used(mig, counts) <= mig.compute_slices
        and all(used <= budget[engine] for engine, used in engines_used(mig, counts).items())
    )


def compute_used(mig: Mig, counts: Sequence[int]) -> int:
    """Compute slices that the instances take together."""
    return sum(count * profile.compute_slices for profile, count in zip(mig.profiles, counts, strict=True))


@functools.lru_cache(maxsize=256)
def feasible(mig: Mig) -> frozenset[Counts]:
    """Every set of instances that fits on one GPU, the empty one included.

    Walks the profiles once and keeps, for each count vector, all sets of slices it can occupy: one more
    instance fits when some occupied set leaves one of its places free. Limits only tighten with more
    instances, so a vector over a limit ends its branch.
    """
    empty: Counts = (0,) * len(mig.profiles)
    occupied: dict[Counts, set[int]] = {empty: {0}}
    for index, profile in enumerate(mig.profiles):
        places = masks(profile)
        for start_counts, start_rows in list(occupied.items()):
            rows = start_rows
            for count in range(1, profile.max_count + 1):
                rows = {row | place for row in rows for place in places if not row & place}
                counts = (*start_counts[:index], count, *start_counts[index + 1 :])
                if not rows or not within_limits(mig, counts):
                    break
                occupied[counts] = rows
    return frozenset(occupied)


@functools.lru_cache(maxsize=256)
def maximal(mig: Mig) -> tuple[Counts, ...]:
    """The feasible sets to which no instance of any profile can be added, largest instances first."""
    fits = feasible(mig)
    steps = range(len(mig.profiles))
    layouts = [
        counts
        for counts in fits
        if not any((*counts[:i], counts[i] + 1, *counts[i + 1 :]) in fits for i in steps)
    ]
    order = display_order(mig)
    return tuple(sorted(layouts, key=lambda counts: [-counts[i] for i in order]))


def display_order(mig: Mig) -> list[int]:
    """Indexes of the profiles from the largest to the smallest, plain ones before their variants."""
    return sorted(
        range(len(mig.profiles)),
        key=lambda i: (-mig.profiles[i].size, -mig.profiles[i].compute_slices, i),
    )
