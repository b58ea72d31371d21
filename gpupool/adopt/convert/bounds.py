"""A Karpenter pool's limits -> how large the pool may get. A pool of gpupool is never unbounded.

Karpenter counts what nodes advertise (v1.14.1, pkg/controllers/state): of a shared GPU its slices. A limit of
slices says how many GPUs there may be; what other limits allow depends on the machine, and the largest
counts, so the pool never gets larger than it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.draft import DraftPool
from gpupool.adopt.convert.quantities import quantity
from gpupool.environment.catalog.models import InstanceType
from gpupool.environment.catalog.project import catalog_here
from gpupool.environment.sharing import GPU_RESOURCE

NODES = "nodes"
Limits = Sequence[tuple[str, Part]]


def sizes_of(pool: DraftPool) -> list[int]:
    """GPUs of the pool's machines, ascending, each number once."""
    gpu = catalog_here()[pool.gpu]
    return sorted({gpu.instance_type(name).gpus for name in pool.instance_types}) or [pool.gpus or 1]


def gpus_of(pool: DraftPool) -> int:
    """Most physical GPUs of the pool."""
    return pool.max_gpus or (pool.max or len(pool.names)) * sizes_of(pool)[-1]


def bound(pool: DraftPool, gpus: int) -> None:
    """Let the pool have so many physical GPUs: by nodes where its machines have one number of them."""
    sizes = sizes_of(pool)
    if len(sizes) == 1:
        pool.max = gpus // sizes[0]
    else:
        pool.max_gpus = gpus


def startable(
    fleets: Sequence[tuple[Part, Limits]], types: Sequence[InstanceType], per_gpu: Mapping[str, int]
) -> list[InstanceType]:
    """Those of `types` that the limits of each fleet allow one node of; the smallest if there is none.
    `per_gpu`: slices of one GPU."""
    amounts = [_amounts(limits, per_gpu) for _, limits in fleets]
    fitting = [row for row in types if all(_nodes(row, amount, per_gpu) != 0 for amount in amounts)]
    fewest = min(row.gpus for row in types)
    kept = fitting or [row for row in types if row.gpus == fewest]
    if gone := [row.name for row in types if row not in kept]:
        why = f"its limits allow no {' and no '.join(gone)}: left out"
        fleets[0][0].note("assumed", why, "add it to nodes.instanceTypes, and raise the limit")
    return kept


def gpus_max(
    part: Part, limits: Limits, types: Sequence[InstanceType], per_gpu: Mapping[str, int], unbounded: int
) -> int:
    """The most physical GPUs that `limits` allow of `types`, a multiple of the smallest machine's and at
    least that; `unbounded` of the largest machine if there is no limit. `per_gpu`: slices of one GPU."""
    smallest, largest = min(row.gpus for row in types), max(row.gpus for row in types)
    unit, field, counted = _counted_in(types)
    amounts = _amounts(limits, per_gpu)
    for name, limit in limits:
        if quantity(limit.value) is None:
            limit.wrong("not an amount", 'write it as a string, such as "8"')
        elif name not in amounts:
            limit.left("gpupool limits a pool by its nodes or GPUs", "limit nodes or GPUs instead")
    if not amounts:
        part.note(
            "assumed",
            f"it has no limit, but every pool needs one: {field} {unbounded * largest // unit} was written",
            f"correct nodes.{field}, or convert again with --max",
        )
        return unbounded * largest
    allowed = {name: _gpus(name, amount, types, per_gpu) for name, amount in amounts.items()}
    least = min(allowed.values())
    binding = [name for name, gpus in allowed.items() if gpus == least]
    if NODES not in amounts and per_gpu.get(GPU_RESOURCE, 1) > 1 and GPU_RESOURCE in amounts:
        part.note(
            "assumed",
            f"Karpenter counts slices, of which the largest machine has {per_gpu[GPU_RESOURCE] * largest}",
            f"raise nodes.{field} if the limit was meant for physical GPUs",
        )
    for name, limit in limits:
        if name in binding:
            limit.used()
        elif name in allowed:
            fewer = f"{least // unit} instead of {allowed[name] // unit}"
            limit.left(f"{', '.join(binding)} allows fewer {counted}: {fewer}")
    written = max(least - least % smallest, smallest)
    if least < smallest:
        less = f"{' and '.join(binding)} is less than the smallest machine has"
        part.note("assumed", f"{less}: {field} {written // unit} was written", "check it")
    else:
        _say_range(part, types, amounts, per_gpu, written)
    return written


def _say_range(
    part: Part,
    types: Sequence[InstanceType],
    amounts: Mapping[str, Fraction],
    per_gpu: Mapping[str, int],
    written: int,
) -> None:
    """Report how many nodes the limits mean where that depends on the machine."""
    nodes = {row: _nodes(row, amounts, per_gpu) or 0 for row in types}
    most = max(types, key=lambda row: nodes[row] * row.gpus)
    if nodes[most] * most.gpus <= written:
        return
    fewest = min(types, key=lambda row: nodes[row] * row.gpus)
    unit, field, _ = _counted_in(types)
    part.note(
        "assumed",
        f"machines differ in size: its limits allow {nodes[most]} nodes of {most.name} and {nodes[fewest]} "
        f"of {fewest.name}; {field} {written // unit} was written, for the largest",
        f"set nodes.{field} to the intended number",
    )


def _counted_in(types: Sequence[InstanceType]) -> tuple[int, str, str]:
    """GPUs of what the bound counts, its field, and what it counts: nodes where machines have one size."""
    alike = len({row.gpus for row in types}) == 1
    return (types[0].gpus, "max", "nodes") if alike else (1, "maxGpus", "GPUs")


def _amounts(limits: Limits, per_gpu: Mapping[str, int]) -> dict[str, Fraction]:
    """The limits that bound a pool and can be read."""
    amounts = {name: quantity(limit.value) for name, limit in limits}
    known = {NODES, "cpu", "memory", *per_gpu}
    return {name: amount for name, amount in amounts.items() if amount is not None and name in known}


def _nodes(row: InstanceType, amounts: Mapping[str, Fraction], per_gpu: Mapping[str, int]) -> int | None:
    """How many machines of one type the limits allow; None if nothing bounds them."""
    return min((int(amount / _size(name, row, per_gpu)) for name, amount in amounts.items()), default=None)


def _gpus(name: str, amount: Fraction, types: Sequence[InstanceType], per_gpu: Mapping[str, int]) -> int:
    """The physical GPUs that one limit allows."""
    if name in per_gpu:
        return int(amount / per_gpu[name])
    return int(amount / max(_size(name, row, per_gpu) for row in types)) * max(row.gpus for row in types)


def _size(name: str, row: InstanceType, per_gpu: Mapping[str, int]) -> Fraction:
    """What one machine counts in a limit."""
    sizes = {
        NODES: Fraction(1),
        "cpu": Fraction(row.vcpus),
        "memory": Fraction(row.memory_gib) * 1024**3,
        **{resource: Fraction(count * row.gpus) for resource, count in per_gpu.items()},
    }
    return sizes[name]
