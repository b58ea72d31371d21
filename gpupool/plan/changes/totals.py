"""What a whole environment amounts to in two states: slices, GPUs, nodes, money."""

from __future__ import annotations

from gpupool.plan.changes.model import BeforeAfter, Cost, ResourceChange
from gpupool.plan.model import Plan


def resource_changes(before: Plan | None, after: Plan | None) -> tuple[ResourceChange, ...]:
    """Slices by extended resource over all pools at their maximum, sorted by name."""
    old, new = _slices(before), _slices(after)
    return tuple(ResourceChange(name, old.get(name, 0), new.get(name, 0)) for name in sorted({*old, *new}))


def _slices(plan: Plan | None) -> dict[str, int]:
    total: dict[str, int] = {}
    for pool in plan.pools if plan else ():
        for name, count in pool.slices_max.items():
            total[name] = total.get(name, 0) + count
    return total


def gpus(before: Plan | None, after: Plan | None) -> BeforeAfter[int]:
    """Physical GPUs with every pool at its maximum, on its largest machine."""
    return BeforeAfter(_gpus(before), _gpus(after))


def _gpus(plan: Plan | None) -> int:
    return sum(pool.gpus_per_node * pool.nodes_max for pool in plan.pools) if plan else 0


def nodes(before: Plan | None, after: Plan | None) -> BeforeAfter[int]:
    """Nodes with every pool at its maximum."""
    return BeforeAfter(_nodes(before), _nodes(after))


def _nodes(plan: Plan | None) -> int:
    return sum(pool.nodes_max for pool in plan.pools) if plan else 0


def cost(before: Plan | None, after: Plan | None) -> BeforeAfter[Cost | None]:
    """USD a month; None where a price is unknown or there is no such state."""
    return BeforeAfter(_cost(before), _cost(after))


def _cost(plan: Plan | None) -> Cost | None:
    known = plan.monthly_usd() if plan else None
    return Cost(*known) if known else None
