"""The legal MIG layouts that come nearest to one that doesn't fit."""

from __future__ import annotations

from gpupool.environment.catalog.models import Mig
from gpupool.environment.sharing.placement import Counts, display_order, maximal

NEAREST = 5
"""How many alternatives an impossible layout gets."""


def nearest_layouts(mig: Mig, counts: Counts) -> tuple[dict[str, int], ...]:
    """Maximal layouts by what they keep of the request (memory slices, instances, variants), then by what
    they add.

    Variants (`+me`, `+gfx`, ...) are suggested only when the request names a variant.
    """

    def distance(candidate: Counts) -> tuple[int, ...]:
        kept = [min(want, have) for want, have in zip(counts, candidate, strict=True)]
        added = [have - keep for have, keep in zip(candidate, kept, strict=True)]
        sizes = [profile.size for profile in mig.profiles]
        return (
            -sum(keep * size for keep, size in zip(kept, sizes, strict=True)),
            -sum(kept),
            -sum(keep for keep, profile in zip(kept, mig.profiles, strict=True) if profile.attribute),
            sum(more * size for more, size in zip(added, sizes, strict=True)),
            sum(1 for more, want in zip(added, counts, strict=True) if more and not want),
            sum(added),
        )

    wants_variant = _has_variant(mig, counts)
    candidates = [found for found in maximal(mig) if wants_variant or not _has_variant(mig, found)]
    if any(counts):
        candidates.sort(key=distance)
    return tuple(as_layout(mig, found) for found in candidates[:NEAREST])


def _has_variant(mig: Mig, counts: Counts) -> bool:
    return any(count and profile.attribute for profile, count in zip(mig.profiles, counts, strict=True))


def as_layout(mig: Mig, counts: Counts) -> dict[str, int]:
    """Counts as a layout: profile name to count, largest first."""
    return {mig.profiles[i].name: counts[i] for i in display_order(mig) if counts[i]}
