"""What a whole environment amounts to in two states: slices, GPUs, nodes, money."""

from __future__ import annotations

from gpupool.environment.plan.changes.model import BeforeAfter, Cost, ResourceChange
from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.pool_cost import total_monthly_cost


def resource_changes(before: Plan | None, after: Plan | None) -> tuple[ResourceChange, ...]:
    """Slices by extended resource over all pools at their maximum, sorted by name."""
    old, new = (plan.slices_max if plan else {} for plan in (before, after))
    return tuple(ResourceChange(name, old.get(name, 0), new.get(name, 0)) for name in sorted({*old, *new}))


def gpus(before: Plan | None, after: Plan | None) -> BeforeAfter[int]:
    """Physical GPUs with every pool at its maximum."""
    pools = (plan.pools if plan else () for plan in (before, after))
    return BeforeAfter(*(sum(pool.gpus_max for pool in every) for every in pools))


def nodes(before: Plan | None, after: Plan | None) -> BeforeAfter[int]:
    """Nodes with every pool at its maximum."""
    pools = (plan.pools if plan else () for plan in (before, after))
    return BeforeAfter(*(sum(pool.nodes_max for pool in every) for every in pools))


def cost(before: Plan | None, after: Plan | None) -> BeforeAfter[Cost | None]:
    """USD a month; None where a price is unknown or there is no such state."""
    known = (total_monthly_cost(plan.pools) if plan else None for plan in (before, after))
    return BeforeAfter(*(Cost(cost.floor, cost.ceiling) if cost else None for cost in known))
