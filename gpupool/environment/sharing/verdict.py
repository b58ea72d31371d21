"""Says of one requested MIG layout whether it fits, where, or else why not and what is nearest to it.

Explains what `placement` decides; holds no placement rule of its own.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.catalog.models import CatalogError, GpuModel, Mig, Profile
from gpupool.environment.sharing.nearest import as_layout, nearest_layouts
from gpupool.environment.sharing.placement import Counts, Placed, maximal, place, within_limits
from gpupool.environment.sharing.reason import explain

Layout = Mapping[str, int]
"""Profile name to instances of it on each GPU."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one layout on one model."""

    fits: bool
    placement: tuple[Placed, ...] = ()
    """One way to place it; the driver may choose another."""
    reason: str = ""
    """Why it doesn't fit, in one sentence; empty when it does."""
    nearest: tuple[dict[str, int], ...] = ()
    """Legal layouts that keep most of the request, the closest first."""


def maximal_layouts(gpu: GpuModel) -> list[dict[str, int]]:
    """Every layout of `gpu` to which no instance can be added, over all its profiles, variants included."""
    return [] if gpu.mig is None else [as_layout(gpu.mig, counts) for counts in maximal(gpu.mig)]


def verdict(gpu: GpuModel, layout: Layout) -> Verdict:
    """Whether every GPU of model `gpu` can be partitioned as `layout` says. Never raises for a bad layout."""
    mig = gpu.mig
    if mig is None:
        return Verdict(False, reason=_without_mig(gpu))
    if not layout:
        return Verdict(
            False,
            reason="the layout names no profile",
            nearest=nearest_layouts(mig, (0,) * len(mig.profiles)),
        )
    for name, count in layout.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            return Verdict(
                False,
                reason=f"{name}: expected a whole number of 1 or more, got {count!r}",
            )

    counts, names, unknown = _resolve(gpu, mig, layout)
    if unknown:
        translated = (as_layout(mig, counts),) if sum(counts) and _placement(mig, counts) else ()
        return Verdict(
            False,
            reason="; ".join(unknown),
            nearest=translated or nearest_layouts(mig, counts),
        )
    doubled = [given for given in names.values() if len(given) > 1]
    if doubled:
        reason = f"{' and '.join(doubled[0])} are names of one profile in different drivers; use one of them"
        return Verdict(False, reason=reason, nearest=nearest_layouts(mig, counts))

    placement = _placement(mig, counts)
    if placement is None:
        return Verdict(False, reason=explain(mig, counts), nearest=nearest_layouts(mig, counts))
    as_given = {mig.profiles[index].name: given[0] for index, given in names.items()}
    return Verdict(
        True,
        tuple(Placed(as_given[placed.profile], placed.start, placed.size) for placed in placement),
    )


def _without_mig(gpu: GpuModel) -> str:
    if gpu.own_file is None:
        return f"the {gpu.title} has no MIG"
    return f"catalog/{gpu.key}.yaml has no MIG profiles of the {gpu.title}"


def _placement(mig: Mig, counts: Counts) -> tuple[Placed, ...] | None:
    return place(mig, counts) if within_limits(mig, counts) else None


def _resolve(gpu: GpuModel, mig: Mig, layout: Layout) -> tuple[Counts, dict[int, list[str]], list[str]]:
    """Counts per profile, the names given for each, and a sentence for every name that isn't this model's.

    A strange name counts for the profile that was probably meant, so that the nearest layouts make sense.
    """
    counts = [0] * len(mig.profiles)
    names: dict[int, list[str]] = {}
    unknown: list[str] = []
    for name, count in layout.items():
        try:
            meant: Profile | None = mig.profile(name)
        except CatalogError as error:
            sentence, meant = _unknown_profile(gpu, mig, name, error)
            unknown.append(sentence)
        if meant is not None:
            index = mig.profiles.index(meant)
            counts[index] += count
            names.setdefault(index, []).append(name)
    return tuple(counts), names, unknown


def _unknown_profile(gpu: GpuModel, mig: Mig, name: str, error: CatalogError) -> tuple[str, Profile | None]:
    """What to say about a profile name that `gpu` doesn't have, and the profile that was probably meant."""
    own = {profile.nvml_id: profile for profile in mig.profiles}
    models = load_catalog().models.values()
    others = [(model, model.mig) for model in models if model.mig and model.key != gpu.key]
    others.sort(key=lambda one: (one[1].slots != mig.slots, one[0].architecture != gpu.architecture))
    for model, theirs in others:
        for profile in theirs.profiles:
            if name != profile.name:
                continue
            # NVML numbers shapes, and a number means the same shape only on GPUs with the same row of slices.
            alike = profile.nvml_id is not None and theirs.slots == mig.slots
            same = own.get(profile.nvml_id) if alike else None
            names = ", ".join(one.name for one in mig.profiles)
            here = f"on the {gpu.title} it is {same.name}" if same else f"the {gpu.title} has {names}"
            return f"{name} is a profile of the {model.title}; {here}", same
    close = difflib.get_close_matches(name, [profile.name for profile in mig.profiles], n=1)
    return f"the {gpu.title} has {error.message}; {error.remediation}", mig.profile(
        close[0]
    ) if close else None
