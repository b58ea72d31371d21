"""Pools of two Plans: which came, went, were renamed or changed, and in which settings."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

from gpupool.environment.plan.changes import wording
from gpupool.environment.plan.changes.fields import DERIVED_LABELS, differing, pool_settings
from gpupool.environment.plan.changes.model import Change, Cost, PoolChange, PoolState
from gpupool.environment.plan.model import POOL_LABEL, Plan, Pool, Taint
from gpupool.environment.plan.pool_cost import monthly_cost


def pool_changes(before: Plan | None, after: Plan | None) -> tuple[PoolChange, ...]:
    """Every pool of both states: those that are left in the order of `after`, then those that went."""
    old = {pool.name: pool for pool in before.pools} if before else {}
    new = {pool.name: pool for pool in after.pools} if after else {}
    renamed = renamed_pools(old, new)
    kept = [_pair(old.get(renamed.get(name, name)), pool) for name, pool in new.items()]
    gone = [pool for name, pool in old.items() if name not in new and name not in renamed.values()]
    return (*kept, *(_pair(pool, None) for pool in gone))


def renamed_pools(old: Mapping[str, Pool], new: Mapping[str, Pool]) -> dict[str, str]:
    """New name -> old name of pools that differ in nothing else. Where several match, none counts."""
    gone = {name: _nameless(pool) for name, pool in old.items() if name not in new}
    come = {name: _nameless(pool) for name, pool in new.items() if name not in old}
    twins = {name: [other for other, pool in gone.items() if pool == mine] for name, mine in come.items()}
    claimed = Counter(other for others in twins.values() for other in others)
    return {name: others[0] for name, others in twins.items() if len(others) == 1 and claimed[others[0]] == 1}


def _nameless(pool: Pool) -> Pool:
    """The pool without its name and what follows from it."""
    return dataclasses.replace(
        pool,
        name="",
        capacities=tuple(dataclasses.replace(capacity, name="") for capacity in pool.capacities),
        labels={key: value for key, value in pool.labels.items() if key not in DERIVED_LABELS[:2]},
        taints=tuple(
            Taint(taint.key, "", taint.effect)
            if (taint.key, taint.value) == (POOL_LABEL, pool.name)
            else taint
            for taint in pool.taints
        ),
    )


def _pair(before: Pool | None, after: Pool | None) -> PoolChange:
    if before is None or after is None:
        there = before or after
        assert there is not None
        change: Change = "removed" if before else "added"
        return PoolChange(there.name, change, None, _state(before), _state(after), ())
    fields = differing(pool_settings(before), pool_settings(after))
    renamed = before.name != after.name
    return PoolChange(
        name=after.name,
        change="renamed" if renamed else "changed" if fields else "unchanged",
        renamed_from=before.name if renamed else None,
        before=_state(before),
        after=_state(after),
        fields=fields,
    )


def _state(pool: Pool | None) -> PoolState | None:
    if pool is None:
        return None
    cost = monthly_cost(pool)
    return PoolState(
        name=pool.name,
        gpu=pool.gpu.key,
        gpu_title=pool.gpu.title,
        mode=pool.sharing.mode,
        sharing=wording.sharing(pool),
        layout=dict(pool.sharing.layout),
        instance_types=tuple(m.instance_type for m in pool.machines if m.instance_type),
        nodes_max=pool.nodes_max,
        warm=pool.warm,
        gpus_per_node=pool.gpus_per_node,
        slices_per_node=dict(pool.slices_per_node),
        slices_max=dict(pool.slices_max),
        gpus_max=pool.gpus_max,
        cost=Cost(cost.floor, cost.ceiling) if cost else None,
    )
