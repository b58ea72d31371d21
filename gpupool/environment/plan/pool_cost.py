"""What pools cost in a month, in USD: with their warm nodes alone, and with all nodes that they may have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpupool.environment.plan.model import RESERVED, Capacity, Machine, Pool

HOURS_PER_MONTH = 730
"""Hours in a month (365 * 24 / 12), as in cloud price lists."""


@dataclass(frozen=True, slots=True)
class MonthlyCost:
    """USD in a month, in whole cents. Nodes that may be spot or on-demand count as spot at the floor and as
    on-demand at the ceiling."""

    floor: float
    """Reserved nodes, used or not, and warm nodes."""
    warm: float
    """The part of the floor that `nodes.warm` adds: nothing for warm nodes that are reserved. It counts
    against tenants' budgets before a job runs."""
    ceiling: float
    """All nodes that there may be."""


def monthly_cost(pool: Pool) -> MonthlyCost | None:
    """What `pool` costs; nothing for nodes that exist already, None where a price is unknown."""
    prices = {
        "on-demand": [machine.usd_per_hour for machine in pool.machines],
        "spot": [machine.spot_usd_per_hour for machine in pool.machines],
        RESERVED: [machine.reserved_usd_per_hour for machine in pool.machines],
    }
    reserved = warm = ceiling = 0.0
    warm_left = pool.warm
    for capacity in sorted(pool.capacities, key=_warm_order):
        cheapest, dearest = (_all_known(prices[type]) for type in (capacity.types[0], capacity.types[-1]))
        if cheapest is None or dearest is None:
            return None
        warm_nodes = min(warm_left, capacity.max_nodes)
        warm_left -= warm_nodes
        if capacity.type == RESERVED:
            reserved += capacity.max_nodes * min(cheapest)
        else:
            warm += warm_nodes * min(cheapest)
        ceiling += _dearest(pool.machines, dearest, capacity.max_gpus)
    floor, warm, ceiling = (round(usd * HOURS_PER_MONTH, 2) for usd in (reserved + warm, warm, ceiling))
    return MonthlyCost(floor, warm, ceiling)


def total_monthly_cost(pools: Iterable[Pool]) -> MonthlyCost | None:
    """What all `pools` cost together; None where a price is unknown."""
    costs = [monthly_cost(pool) for pool in pools]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        return None
    return MonthlyCost(
        round(sum(cost.floor for cost in known), 2),
        round(sum(cost.warm for cost in known), 2),
        round(sum(cost.ceiling for cost in known), 2),
    )


def _warm_order(capacity: Capacity) -> tuple[bool, int]:
    """Sort key: warm nodes count as reserved ones first, which are paid for anyway, then as on-demand ones
    (the lowest weight), and as spot ones last. Karpenter prefers spot nodes, but they may be unavailable."""
    return capacity.type != RESERVED, capacity.weight


def _all_known(prices: Sequence[float | None]) -> list[float] | None:
    """`prices`; None where one of them is unknown."""
    known = [price for price in prices if price is not None]
    return known if len(known) == len(prices) else None


def _dearest(machines: Sequence[Machine], prices: Sequence[float], gpus: int) -> float:
    """The most that machines with at most `gpus` GPUs together cost in an hour; `prices` are those of
    `machines`."""
    most = [0.0] * (gpus + 1)
    for count in range(1, gpus + 1):
        fitting = [
            most[count - machine.gpus] + price
            for machine, price in zip(machines, prices, strict=True)
            if machine.gpus <= count
        ]
        most[count] = max(fitting, default=0.0)
    return max(most)
