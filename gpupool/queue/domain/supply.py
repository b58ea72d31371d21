"""Plan -> Supply: nodes with their slots, what slots cost, and the rules that tenants are held to.

The Plan's numbers in the units that decisions count in; made once per Plan. Nodes are logical: a pool that
may have four nodes has nodes 0 to 3, whether or not they run at this moment.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, inf

from gpupool.environment.plan.model import RESERVED, Plan, Pool
from gpupool.environment.spec.tenants import Budget
from gpupool.queue.records import MICRO

DRAIN_S = 40 * 60
"""So long before a Capacity Block ends Karpenter drains its nodes (karpenter-provider-aws v1.14.1, capacity
blocks)."""
_NO_NODES = frozenset[int]()


@dataclass(frozen=True, slots=True)
class Node:
    """A node that a pool may have."""

    number: int
    capacity_type: str
    """reserved, spot, on-demand; or spot-first, which is one of the two last, as shows once it runs."""
    slots: Mapping[str, int]
    """Extended resource -> units on the node."""
    until: float = inf
    """When a job there must have ended, in epoch seconds; infinity where there is no such time."""


@dataclass(frozen=True, slots=True)
class PoolSupply:
    """What one pool has to give."""

    name: str
    key: str
    """Catalog key of its GPU; `mig` where GPUs are partitioned."""
    nodes: tuple[Node, ...]
    gpu_micro: Mapping[str, int]
    """Extended resource -> what one unit is of a physical GPU."""
    rate_micro: Mapping[str, int]
    """Extended resource -> price of one unit for an hour, on demand; 0 where no price is known."""
    spot_rate_micro: Mapping[str, int] | None
    """The same on spot; None where the pool has no spot nodes."""
    spot_share: float
    """Share of the running GPUs that is to be on spot, where the pool has nodes of both types."""
    types: frozenset[str] = field(init=False)
    ending: tuple[Node, ...] = field(init=False)
    """Nodes that end, and those that are reserved beside them without an end."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", frozenset(node.capacity_type for node in self.nodes))
        reserved = tuple(node for node in self.nodes if node.capacity_type == RESERVED)
        ending = reserved if any(node.until < inf for node in reserved) else ()
        object.__setattr__(self, "ending", ending)

    def slots(self, resource: str) -> int:
        return sum(node.slots.get(resource, 0) for node in self.nodes)

    def closed_to(self, ends: float, now: float) -> frozenset[int]:
        """Nodes that a job must not be on that runs until `ends`. Which reservation a pod's node is of is for
        Karpenter to choose, so the one that ends first holds for all that are not over."""
        if not self.ending:
            return _NO_NODES
        first = min((node.until for node in self.ending if node.until > now), default=inf)
        return frozenset(node.number for node in self.ending if node.until <= now or ends > first)

    def types_for(self, may_be_on_spot: bool) -> frozenset[str]:
        """Capacity types of the nodes that such a job may ever be on."""
        return self.types if may_be_on_spot or len(self.types) < 2 else self.types - {"spot"}


@dataclass(frozen=True, slots=True)
class Allowance:
    """A budget in the units of decisions."""

    limit_micro: int
    overrun_micro: int
    """What critical jobs may spend beyond it."""
    period: str
    """day, week or month."""
    on_exhausted: str = "wait"
    """wait, reject (at submission), or preempt: a job takes what the tenant's lower ones hold."""


@dataclass(frozen=True, slots=True)
class TenantRule:
    """What one tenant is held to."""

    name: str
    weight: float
    running: int | None
    grants: Mapping[tuple[str, str], int]
    """(pool, resource) -> units that it may hold at once."""
    guaranteed: Mapping[tuple[str, str], int]
    """The same; where the grants of all tenants exceed the pool, a part of the pool by grant and weight."""
    budgets: Mapping[str, Allowance]
    """`tenant` or `tenant/project` -> budget; only those that have one."""
    up_to: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(pool, resource) -> units that its jobs may hold at once while others leave them idle; only where that
    is more than it is granted."""
    least_micro: float = field(init=False)
    """The smallest of them; infinity where there is none."""

    def __post_init__(self) -> None:
        limits = (allowance.limit_micro for allowance in self.budgets.values())
        object.__setattr__(self, "least_micro", min(limits, default=float("inf")))


UNKNOWN = TenantRule("", 1.0, 0, {}, {}, {})
"""The rule of a tenant that the environment file no longer has: nothing is started for it."""


@dataclass(frozen=True, slots=True)
class QueueRules:
    """Settings of the queue that decisions follow."""

    ordering: str = "fair-share"
    """fifo, priority or fair-share."""
    aging_s: float = 1800
    """Waiting time that lifts a job by one level."""
    reserve_after_s: float = 600
    """Waiting time after which capacity is reserved for a job that does not fit."""
    minimum_runtime_s: float = 60
    """A job that has run for less does not give way, so that no two can keep each other from any progress."""


@dataclass(frozen=True, slots=True)
class Supply:
    """Everything that changes only with the environment file."""

    pools: Mapping[str, PoolSupply]
    tenants: Mapping[str, TenantRule]
    rules: QueueRules

    def rule(self, tenant: str) -> TenantRule:
        return self.tenants.get(tenant, UNKNOWN)


def supply_of(plan: Plan) -> Supply:
    """The Plan as decisions see it."""
    before_s = DRAIN_S + plan.queue.unscheduled_s + plan.queue.not_started_s
    pools = {pool.name: _pool(pool, before_s) for pool in plan.pools}
    grants_of = {tenant.name: _by_key(tenant.grants) for tenant in plan.tenants}
    granted = Counter[tuple[str, str]]()
    weighted = defaultdict[tuple[str, str], float](float)
    for tenant in plan.tenants:
        granted.update(grants_of[tenant.name])
        for key, units in grants_of[tenant.name].items():
            weighted[key] += units * tenant.weight
    tenants = {}
    for tenant in plan.tenants:
        grants = grants_of[tenant.name]
        budgets = {tenant.name: tenant.budget}
        budgets |= {f"{tenant.name}/{project.name}": project.budget for project in tenant.projects}
        guaranteed = {}
        for key, units in grants.items():
            slots = pools[key[0]].slots(key[1])
            guaranteed[key] = units
            if granted[key] > slots:
                share = slots * units * tenant.weight / weighted[key]
                guaranteed[key] = min(units, int(share + 1e-9))  # sums of fractions are inexact
        allowances = {scope: _allowance(budget) for scope, budget in budgets.items() if budget}
        tenants[tenant.name] = TenantRule(
            tenant.name, tenant.weight, tenant.running, grants, guaranteed, allowances, _by_key(tenant.up_to)
        )
    queue = plan.queue
    rules = QueueRules(queue.ordering, queue.aging_s, queue.reserve_after_s, queue.minimum_runtime_s)
    return Supply(pools, tenants, rules)


def _by_key(pools: Mapping[str, Mapping[str, int]]) -> dict[tuple[str, str], int]:
    """(pool, resource) -> units."""
    return {(name, resource): units for name, counts in pools.items() for resource, units in counts.items()}


def hold_for(rate_micro: int, seconds: int) -> int:
    """What so many seconds cost at that hourly price, rounded up to a micro-USD."""
    return ceil(rate_micro * seconds / 3600)


def _allowance(budget: Budget) -> Allowance:
    limit = round(budget.usd * MICRO)
    return Allowance(limit, round(limit * budget.overrun_by), budget.period, budget.on_exhausted)


def _pool(pool: Pool, before_s: int) -> PoolSupply:
    """`before_s`: how long before the end of a reservation a job's time must be over, if it starts late."""
    ends = [
        row.until.timestamp() - before_s if row.until else inf
        for row in pool.reserved
        for _ in range(row.count)
    ]
    nodes = []
    for number, (type, machine) in enumerate(pool.largest_machines()):
        until = ends.pop(0) if type == RESERVED else inf
        nodes.append(Node(number, type, machine.slices, until))
    spot = any("spot" in capacity.types for capacity in pool.capacities)
    return PoolSupply(
        name=pool.name,
        key="mig" if pool.sharing.layout else pool.gpu.key,
        nodes=tuple(nodes),
        gpu_micro={resource: round(share * MICRO) for resource, share in pool.equivalents.items()},
        rate_micro=_rates(pool, "on-demand"),
        spot_rate_micro=_rates(pool, "spot") if spot else None,
        spot_share=pool.spot_share,
    )


def _rates(pool: Pool, capacity_type: str) -> dict[str, int]:
    """Of the machine whose GPUs cost most, so that a hold is never too small."""
    prices = [
        (machine.usd_per_hour if capacity_type == "on-demand" else machine.spot_usd_per_hour, machine.gpus)
        for machine in pool.machines
    ]
    gpu = max(((usd or 0) / gpus for usd, gpus in prices), default=0.0)
    return {resource: round(gpu * share * MICRO) for resource, share in pool.equivalents.items()}
