"""A Karpenter pool's limits -> the most nodes that the pool may have. A pool of gpupool is never unbounded.

Karpenter counts what nodes advertise (v1.14.1, pkg/controllers/state): of a shared GPU its slices. Where
machines differ in size, the largest counts, so the pool never gets larger than it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from gpupool.catalog.models import InstanceType
from gpupool.convert.account import Part
from gpupool.convert.quantities import quantity
from gpupool.sharing import GPU_RESOURCE

NODES = "nodes"


def nodes_max(
    part: Part,
    limits: Sequence[tuple[str, Part]],
    types: Sequence[InstanceType],
    slices: Mapping[str, int],
    unbounded: int,
) -> int:
    """The most nodes that `limits` allow of `types`, whose largest has `slices`. At least 1; `unbounded` if
    there is no limit."""
    amounts: dict[str, Fraction] = {}
    sizes = _sizes(types, slices)
    for name, limit in limits:
        amount = quantity(limit.value)
        if amount is None:
            limit.wrong("not an amount", 'write it as text, such as "8"')
        elif name not in sizes:
            limit.left("gpupool bounds a pool by its nodes", "bound it by nodes or GPUs instead")
        else:
            amounts[name] = amount
    if not amounts:
        part.note(
            "assumed",
            f"nothing bounds it, and a pool is never unbounded: max {unbounded} was written",
            "correct nodes.max, or convert again with --max",
        )
        return unbounded
    allowed = {name: int(amount / sizes[name]) for name, amount in amounts.items()}
    least = min(allowed.values())
    binding = [name for name, count in allowed.items() if count == least]
    gpus = max(row.gpus for row in types)
    if NODES not in dict(limits) and slices.get(GPU_RESOURCE, gpus) > gpus and GPU_RESOURCE in dict(limits):
        part.note(
            "assumed",
            f"Karpenter counts slices, of which the largest machine has {slices[GPU_RESOURCE]}",
            "raise nodes.max if the limit meant physical GPUs",
        )
    for name, limit in limits:
        if name in binding:
            limit.used()
        elif name in allowed:
            limit.left(f"{', '.join(binding)} allows fewer nodes: {least} instead of {allowed[name]}")
    counts = {row.name: _nodes_of(row, amounts, types, slices) for row in types}
    _said(part, counts, least, binding)
    return max(least, 1)


def _said(part: Part, counts: Mapping[str, int], least: int, binding: Sequence[str]) -> None:
    """Report how many nodes the limits mean where that depends on the machine, whose types have `counts`; if
    one node is left of several, a person has to decide."""
    written, most = max(least, 1), max(counts.values())
    if most > written:
        fewest = min(counts, key=lambda name: counts[name])
        part.note(
            "todo" if written == 1 else "assumed",
            f"machines differ in size: its limits allow {most} nodes of "
            f"{max(counts, key=lambda name: counts[name])} and {counts[fewest]} of {fewest}; "
            f"max {written} was written, for the largest",
            "set nodes.max to the intended number, and name machines of one size in nodes.instanceTypes",
        )
    elif least == 0:
        part.note(
            "assumed",
            f"{' and '.join(binding)} is less than the largest machine has: max 1 was written",
            "check it",
        )


def _nodes_of(
    row: InstanceType,
    amounts: Mapping[str, Fraction],
    types: Sequence[InstanceType],
    slices: Mapping[str, int],
) -> int:
    """How many machines of one type the limits allow."""
    largest = max(other.gpus for other in types)
    sizes = _sizes([row], {name: count * row.gpus // largest for name, count in slices.items()})
    return min(int(amount / sizes[name]) for name, amount in amounts.items())


def _sizes(types: Sequence[InstanceType], slices: Mapping[str, int]) -> dict[str, Fraction]:
    """What the largest machine counts in each limit."""
    return {
        NODES: Fraction(1),
        "cpu": Fraction(max(row.vcpus for row in types)),
        "memory": Fraction(max(row.memory_gib for row in types)) * 1024**3,
        **{name: Fraction(count) for name, count in slices.items()},
    }
