"""What there is to draw of one GPU: its memory and its compute as two rows of blocks, and words with them.

Every mode is drawn in the same language: a row is the whole of the GPU's memory (or compute) from 0 to 1, a
block is a stretch of it, and a block of the one row belongs to the block of the other with the same `owner`.
Places of MIG instances are those that the placement solver gives. No characters, pixels or markup here.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpupool.environment.catalog.models import GpuModel, Mig
from gpupool.environment.sharing import Exclusive, MigSharing, Mps, Sharing, TimeSlicing, verdict
from gpupool.environment.sharing.placement import Counts, feasible

MIB_PER_GIB = 1024

MAX_DRAWN = 60
"""Replicas that are drawn one by one; more of them become a single block that says how many there are."""

OWN = "own"
"""What one pod has for itself."""
SHARED = "shared"
"""What every pod on the GPU can use, and use up."""
UNUSED = "unused"
"""What the layout leaves unused."""


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of a row."""

    start: Fraction
    """Where it begins, as a share of the row: 0 is the left edge, 1 the right one."""
    end: Fraction
    label: str
    """What it is called: a MIG profile, a replica's number, or what is shared; empty for `UNUSED`."""
    detail: str
    """How much it is, e.g. `39.5 GiB` or `3/7`; may be empty."""
    kind: str
    """`OWN`, `SHARED` or `UNUSED`."""
    owner: int | None = None
    """Number of the share, from 0, which joins a block of memory with one of compute."""


@dataclass(frozen=True, slots=True)
class GpuDrawing:
    """One GPU as two rows that cover it from edge to edge."""

    title: str
    """The GPU and how it is shared, on one line."""
    note: str
    """What can't be seen: what is unused, and what keeps the shares apart or doesn't. One line."""
    memory: tuple[Block, ...]
    compute: tuple[Block, ...]
    memory_slices: int = 0
    """MIG's memory slices, the axis on which instances are placed; 0 where the GPU is not partitioned."""
    compute_slices: int = 0
    """MIG's compute slices; 0 where the GPU is not partitioned."""


def drawing(gpu: GpuModel, sharing: Sharing) -> GpuDrawing:
    """What to draw of one `gpu` shared as `sharing`. Raises ValueError for a layout that can't be placed."""
    return _drawn(sharing, gpu)


@functools.singledispatch
def _drawn(sharing: Sharing, _gpu: GpuModel) -> GpuDrawing:
    """Where the drawing of a mode is registered, one function each; a test holds them to `sharing_modes`."""
    raise TypeError(
        f"no drawing of the sharing mode {sharing.mode!r}; register it in gpupool.environment.drawings.gpu"
    )


@_drawn.register
def _exclusive(_sharing: Exclusive, gpu: GpuModel) -> GpuDrawing:
    whole = Fraction(0), Fraction(1)
    return GpuDrawing(
        title=f"{gpu.title}, whole",
        note="One pod has the whole GPU.",
        memory=(Block(*whole, "1 pod", gib(gpu.memory_mib), OWN, 0),),
        compute=(Block(*whole, "all compute", "", OWN, 0),),
    )


@_drawn.register
def _time_slicing(sharing: TimeSlicing, gpu: GpuModel) -> GpuDrawing:
    count = sharing.replicas
    return GpuDrawing(
        title=f"{gpu.title}, time-sliced into {count}",
        note=f"{count} pods take turns. All of them use one memory, and any of them can fill it.",
        memory=(Block(Fraction(0), Fraction(1), "shared by all", gib(gpu.memory_mib), SHARED),),
        compute=_replicas(count, "turn"),
    )


@_drawn.register
def _mps(sharing: Mps, gpu: GpuModel) -> GpuDrawing:
    count = sharing.replicas
    share = gib(Fraction(gpu.memory_mib, count))
    return GpuDrawing(
        title=f"{gpu.title}, MPS with {count} clients",
        # A fatal fault ends every client of its GPU: NVIDIA MPS guide (r570), error containment.
        note=f"{count} pods at once, {share} of memory each, enforced. A fault of one ends all.",
        memory=_replicas(count, "pod", share),
        compute=_replicas(count, "pod", f"1/{count}"),
    )


def _replicas(count: int, called: str, detail: str = "") -> tuple[Block, ...]:
    """Equal blocks side by side, `called` with their number; one block for them all above `MAX_DRAWN`."""
    if count > MAX_DRAWN:
        return (Block(Fraction(0), Fraction(1), f"{count} {called}s", detail, OWN, 0),)
    return tuple(
        Block(Fraction(i, count), Fraction(i + 1, count), f"{called} {i + 1}", detail, OWN, i)
        for i in range(count)
    )


@_drawn.register
def _mig(sharing: MigSharing, gpu: GpuModel) -> GpuDrawing:
    found = verdict(gpu, sharing.layout)
    if gpu.mig is None or not found.fits:
        raise ValueError(f"{gpu.key} can't be drawn: {found.reason}")
    mig = gpu.mig
    memory: list[Block] = []
    compute: list[Block] = []
    slot = taken = 0
    for owner, placed in enumerate(found.placement):
        profile = mig.profile(placed.profile)
        memory += _unused(slot, placed.start, mig.slots)
        slot = placed.start + placed.size
        size = "" if profile.memory_gib is None else gib(Fraction(profile.memory_gib) * MIB_PER_GIB)
        memory.append(
            Block(
                Fraction(placed.start, mig.slots), Fraction(slot, mig.slots), placed.profile, size, OWN, owner
            )
        )
        # Compute slices are counted, not placed: drivers publish starts for memory slices only.
        first, taken = taken, taken + profile.compute_slices
        compute.append(
            Block(
                Fraction(first, mig.compute_slices),
                Fraction(taken, mig.compute_slices),
                f"{profile.compute_slices}/{mig.compute_slices}",
                "",
                OWN,
                owner,
            )
        )
    memory += _unused(slot, mig.slots, mig.slots)
    compute += _unused(taken, mig.compute_slices, mig.compute_slices)
    used = sum(placed.size for placed in found.placement)
    return GpuDrawing(
        title=f"{gpu.title}, MIG {spelled(sharing.layout)}",
        note=f"Memory {used} of {mig.slots} slices, compute {taken} of {mig.compute_slices}. "
        + _room(mig, sharing.layout),
        memory=tuple(memory),
        compute=tuple(compute),
        memory_slices=mig.slots,
        compute_slices=mig.compute_slices,
    )


def _unused(start: int, end: int, slices: int) -> list[Block]:
    return [Block(Fraction(i, slices), Fraction(i + 1, slices), "", "", UNUSED) for i in range(start, end)]


def _room(mig: Mig, layout: Mapping[str, int]) -> str:
    """Which plain profiles would still fit beside the layout, wherever its instances are placed."""
    counts = [0] * len(mig.profiles)
    for name, count in layout.items():
        counts[mig.profiles.index(mig.profile(name))] += count
    fits = feasible(mig)
    fitting = [
        profile.name
        for index, profile in enumerate(mig.profiles)
        if profile.attribute is None and _one_more(tuple(counts), index) in fits
    ]
    if not fitting:
        return "Nothing more fits."
    *first, last = fitting
    return f"Room for one more {', '.join(first)} or {last}." if first else f"Room for one more {last}."


def _one_more(counts: Counts, index: int) -> Counts:
    return (*counts[:index], counts[index] + 1, *counts[index + 1 :])


def spelled(layout: Mapping[str, int]) -> str:
    """A layout for people: `1x3g.40gb + 2x2g.20gb`; sorted, as the order in the file means nothing."""
    return " + ".join(f"{count}x{name}" for name, count in sorted(layout.items(), reverse=True))


def gib(mib: int | Fraction) -> str:
    """MiB as GiB with one decimal at most: `80 GiB`, `22.4 GiB`."""
    return f"{round(float(mib) / MIB_PER_GIB, 1):g} GiB"
