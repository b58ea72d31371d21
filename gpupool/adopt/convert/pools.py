"""Fleets of Karpenter -> pools: one per GPU model, on-demand and spot together, bounded and shared.

What a pool can't be is decided here: a layout that can't be placed, machines with too many kinds of GPU.
Such a pool is left out, since the old one keeps working until somebody removes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpupool.adopt.convert import bounds, budgets, node_labels, reservations
from gpupool.adopt.convert.draft import Choices, Draft, DraftPool
from gpupool.adopt.convert.karpenter_pools import Fleet
from gpupool.adopt.convert.leftovers import Kind
from gpupool.adopt.convert.machines import by_model
from gpupool.adopt.convert.mig_parted import PER_GPU
from gpupool.adopt.convert.sharing import Sharings, leave_out, slices
from gpupool.environment.catalog.models import GpuModel, InstanceType
from gpupool.environment.plan.capacity import capacities
from gpupool.environment.plan.model import POOL_LABEL

_MANY = 6
"""GPU models that one Karpenter pool is split into at most; more were not chosen but let in."""
_SPOT = "-spot"
_SIDES = {_SPOT: ("spot",), "-reserved": ("reserved",)}
"""Ends of names of a pool's other NodePools, and what these start."""


@dataclass(slots=True)
class Made:
    """A pool of the draft and the fleets that it was made of."""

    pool: DraftPool
    fleets: list[Fleet]


def make(fleets: Sequence[Fleet], sharings: Sharings, choices: Choices, draft: Draft) -> list[Made]:
    """Add a pool to `draft` for each GPU model of each fleet; the pools with their fleets."""
    made: list[Made] = []
    for group in _paired(fleets):
        found = list(by_model(group[0].selection.machines))
        reason: tuple[str, str, Kind] | None = None
        if left_out := next(filter(None, (fleet.bought.left_out for fleet in group)), None):
            reason = (*left_out, "left")
        elif problem := _unusable([gpu for gpu, _ in found], group[0].selection.unusable):
            reason = (problem, "narrow its requirements to the intended GPUs, and convert again", "todo")
        if reason:
            for fleet in group:
                fleet.part.left(*reason)
            draft.left_out.append(f"{group[0].name}: {reason[0]}")
            continue
        for gpu, types in found:
            pool = _pool(group, gpu, types, len(found) > 1, sharings, choices, draft)
            if pool is not None:
                draft.add(pool)
                made.append(Made(pool, group))
        _weights(group, [one.pool for one in made if one.fleets is group])
    return made


def _unusable(models: Sequence[GpuModel], unusable: Sequence[str]) -> str:
    if not models:
        return "; ".join(unusable) or "no instance type in the catalog meets its requirements"
    if len(models) > _MANY:
        return f"it may start {len(models)} GPU models, but a pool has only one"
    return ""


def _paired(fleets: Sequence[Fleet]) -> list[list[Fleet]]:
    """Fleets that are the parts of one pool: X, X-spot and X-reserved, otherwise the same."""
    by_name = {fleet.name: fleet for fleet in fleets if fleet.name}
    sides = {fleet.name: fleet for fleet in fleets if _is_side(fleet, by_name)}
    bases = [fleet for fleet in fleets if fleet.name not in sides]
    return [
        [base, *(sides[name] for end in _SIDES if (name := f"{base.name}{end}") in sides)] for base in bases
    ]


def _is_side(fleet: Fleet, by_name: dict[str, Fleet]) -> bool:
    end = next((end for end in _SIDES if fleet.name.endswith(end)), "")
    base = by_name.get(fleet.name.removesuffix(end)) if end else None
    if base is None or base.bought.may_be_reserved:
        return False
    if fleet.bought.types != _SIDES[end] or (end == _SPOT and base.bought.types != ("on-demand",)):
        return False
    budgets_of = [[budget.value for budget in one.budgets] for one in (fleet, base)]
    # Where one side alone has budgets they are the pool's: it has one `maintenance` for both.
    reserved = fleet.bought.only_reserved
    return _signature(fleet, reserved) == _signature(base, reserved) and (
        budgets_of[0] == budgets_of[1] or [] in budgets_of
    )


def _signature(fleet: Fleet, reserved: bool) -> tuple[object, ...]:
    """What the parts of a pool have in common. `reserved`: one of the two is of reserved nodes, which have a
    time of their own after which they are stopped."""
    types = [machine.type.name for machine in fleet.selection.machines]
    steering = {key: part.value for key, part in fleet.steering.items()}
    empty = None if reserved else fleet.consolidate_after
    times = (empty, fleet.expire_after, fleet.termination_grace_period)
    return (
        types,
        steering,
        fleet.labels,
        fleet.taints,
        fleet.bought.zones,
        times,
        fleet.class_name,
        fleet.details,
    )


def _pool(
    group: list[Fleet],
    gpu: GpuModel,
    types: list[InstanceType],
    split: bool,
    sharings: Sharings,
    choices: Choices,
    draft: Draft,
) -> DraftPool | None:
    fleet = group[0]
    name = fleet.pool or node_labels.pool_name(fleet.name)
    name = node_labels.pool_name(f"{name[: 51 - len(gpu.key)]}-{gpu.key}") if split else name
    sizes = sorted({row.gpus for row in types})
    # Both halves say the same; each is asked, so that what each says counts as used.
    answers = [sharings.of(other.steering, gpu, sizes, other.class_name) for other in group]
    sharing, origin, problem = answers[0]
    for other in group:
        if label := other.steering.get(POOL_LABEL):
            label.used()
    if not problem and len(sizes) > 1 and any(other.reservations for other in group):
        problem = "its machines have different numbers of GPUs, but a reservation is for one instance type"
    if problem:
        draft.left_out.append(f"{name}: {problem}")
        if split:
            kind: Kind = "left" if problem == PER_GPU else "wrong"
            fleet.part.note(kind, f"pool {name} is left out: {problem}")
        for other in () if split else group:
            leave_out(other.part, problem)
        return None
    pool = DraftPool(name, gpu.key, sharing, [row.name for row in types])
    _sizes(pool, group, types, slices(sharing, gpu, 1), choices)
    pool.zones = fleet.bought.zones
    _stopped(pool, group)
    pool.expire_after = fleet.expire_after
    pool.termination_grace_period = fleet.termination_grace_period
    pool.labels, pool.taints = dict(fleet.labels), fleet.taints
    pool.details = dict(fleet.details)
    _maintenance(pool, group)
    pool.origin = [*(_origin(other) for other in group), *origin]
    if split:
        why = (
            f"its machines have several GPUs; {name} is the part with the {gpu.title}, with the "
            "original limits"
        )
        fleet.part.note("assumed", why, "lower the limits of the parts")
    if fleet.selection.enumerated:
        listed = ", ".join(pool.instance_types)
        why = f"{'; '.join(fleet.selection.enumerated)} was resolved with the catalog for {name}: {listed}"
        fleet.part.note("assumed", why, "remove types that are not intended")
    _renamed(fleet, name, split)
    return pool


def _stopped(pool: DraftPool, group: list[Fleet]) -> None:
    """After how long empty nodes go, those that are reserved and the others."""
    for fleet in group:
        if not fleet.bought.only_reserved:
            pool.consolidate_after = pool.consolidate_after or fleet.consolidate_after
        if pool.reserved and fleet.reservations:
            pool.reserved_consolidate_after = fleet.consolidate_after


def _maintenance(pool: DraftPool, group: list[Fleet]) -> None:
    """The fleets' budgets, which are equal or set by only one of them."""
    for fleet in reversed(group):
        said = budgets.read(fleet.budgets, bounds.gpus_of(pool) // bounds.sizes_of(pool)[0])
        if fleet.budgets:
            pool.max_unavailable, pool.window = said
    for fleet in group:
        if not fleet.budgets and any(other.budgets for other in group):
            why = (
                f"it has no disruption budgets; those of the other NodePool apply to all of pool {pool.name}"
            )
            fleet.part.note("assumed", why, "correct pools[].maintenance")


def _renamed(fleet: Fleet, name: str, split: bool) -> None:
    if not split and not fleet.pool and name != fleet.name:
        why = f"{fleet.name} is not a valid pool name: the pool is named {name}"
        fleet.part.note("assumed", why, "", "metadata", "name")


def _origin(fleet: Fleet) -> str:
    document = fleet.part.document
    line = document.place(())[0]
    return f"{document.kind} {fleet.name} ({document.file}{f':{line}' if line else ''})"


def _sizes(
    pool: DraftPool, group: list[Fleet], types: list[InstanceType], per_gpu: dict[str, int], choices: Choices
) -> None:
    """Machines that can start, how many GPUs they may have, nodes kept warm, and the share of spot."""
    types = bounds.startable(
        [(fleet.part, fleet.limits) for fleet in group if not fleet.warm], types, per_gpu
    )
    pool.instance_types = [row.name for row in types]
    counts = []
    for fleet in group:
        if fleet.warm:
            counts.append(fleet.warm * max(row.gpus for row in types))
            for _, limit in fleet.limits:
                limit.left(f"spec.replicas says how many nodes there are: {fleet.warm}")
            pool.warm += fleet.warm
        else:
            counts.append(bounds.gpus_max(fleet.part, fleet.limits, types, per_gpu, choices.max))
    bounds.bound(pool, sum(counts))
    for fleet, gpus in zip(group, counts, strict=True):
        if fleet.reservations:
            reservations.place(pool, fleet, gpus // bounds.sizes_of(pool)[-1])
    rest = [(fleet, gpus) for fleet, gpus in zip(group, counts, strict=True) if fleet.bought.capacity_types]
    if len(rest) == 2:
        pool.spot_share = _share(rest[1][1], rest[0][1] + rest[1][1], bounds.sizes_of(pool))
    elif rest and rest[0][0].bought.capacity_types == ("spot",):
        pool.spot_share = 1.0
    elif rest and len(rest[0][0].bought.capacity_types) == 2:
        pool.capacity = ["spot", "on-demand"]


def _share(spot: int, total: int, sizes: Sequence[int]) -> float:
    """The shortest share that gives so many spot GPUs of `total`
    (`gpupool.environment.plan.capacity.capacities`)."""
    for digits in (1, 2, 3, 4, 5, 6):
        share = round(spot / total, digits)
        sides = {
            side.type: side.max_gpus for side in capacities("x", total, sizes, min(max(share, 0.0), 1.0))
        }
        if 0 < share < 1 and sides.get("spot", 0) == spot:
            return share
    return spot / total


def _weights(group: list[Fleet], pools: Sequence[DraftPool]) -> None:
    """The weights, compared with those of the NodePools that each fleet becomes. One that becomes two, of
    on-demand and spot nodes, has no weight of its own any more."""
    sides = [
        side
        for pool in pools
        for side in capacities(
            pool.name,
            bounds.gpus_of(pool),
            bounds.sizes_of(pool),
            pool.spot_share,
            sum(row["count"] for row in pool.reserved),
            bool(pool.capacity),
        )
    ]
    for fleet in group if pools else ():
        ours = {
            " or ".join(side.types): side.weight for side in sides if {*side.types} & {*fleet.bought.types}
        }
        weight = fleet.part.at("spec", "weight")
        if not (len(ours) == 1 and weight.mark_derived_if(*ours.values())):
            written = " and ".join(f"weight {number} to {kind} nodes" for kind, number in ours.items())
            weight.left(
                f"gpupool sets {written}, and has no other order of pools",
                "let pods select their pool by labels and taints",
            )
