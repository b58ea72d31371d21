"""The pools whose nodes Karpenter starts, as the makers of Karpenter's objects take them.

A pool of nodes that exist has no NodePool, no node class and no NodeOverlay. Its type says so: what needs an
instance type or a capacity is given a `KarpenterPool`, of which only `karpenter_pools` makes any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpupool.environment.plan.model import Capacity, Machine, Plan, Pool


@dataclass(frozen=True, slots=True)
class KarpenterPool:
    """A pool with what only Karpenter's nodes have."""

    pool: Pool
    capacities: tuple[Capacity, ...]
    """One for each of its NodePools, at least one."""
    instance_types: Mapping[str, Machine]
    """Instance type -> machine in the order of the file, at least one."""

    @property
    def node_pools(self) -> list[str]:
        """Names of its NodePools."""
        return [capacity.name for capacity in self.capacities]


def karpenter_pools(plan: Plan) -> tuple[KarpenterPool, ...]:
    """The pools of `plan` that Karpenter starts nodes for, in the order of the file."""
    return tuple(
        # All machines of such a pool have an instance type; the condition tells the type checker.
        KarpenterPool(pool, pool.capacities, {m.instance_type: m for m in pool.machines if m.instance_type})
        for pool in plan.pools
        if pool.capacities
    )
