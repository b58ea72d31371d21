"""What differs in a pool or a tenant, as a group of rows before and after."""

from __future__ import annotations

from gpupool.environment.drawings import drawable
from gpupool.environment.drawings.gpu import drawing
from gpupool.environment.plan.changes import wording
from gpupool.environment.plan.changes.model import (
    BeforeAfter,
    PoolChange,
    PoolState,
    SettingChange,
    TenantChange,
)
from gpupool.review.report import phrases
from gpupool.review.report.blocks import Group, Piece, ValueChange

_GIST_FIELDS = 3
"""Changed settings that the line about a pool names; its table has them all."""


def pool_group(pool: PoolChange) -> Group:
    before, after = drawable(pool.before), drawable(pool.after)
    titles = [drawing(*drawn).title if drawn else "" for drawn in (before, after)]
    gpu = BeforeAfter(pool.before, pool.after) if titles[0] != titles[1] else None
    if pool.before is None or pool.after is None:
        state = pool.after or pool.before
        assert state is not None
        gist = f"{state.gpu}, {state.sharing}, up to {phrases.plural(state.nodes_max, 'node')}"
        rows = [
            ValueChange(Piece(name), *((None, amount) if pool.before is None else (amount, None)))
            for name, amount in _amounts(state).items()
        ]
        return Group(pool.name, pool.change, gist, rows, gpu=gpu)
    rows = [change_of(field) for field in pool.fields]
    if pool.renamed_from:
        rows.insert(0, ValueChange(Piece("name"), pool.renamed_from, pool.name))
    followed = _derived(pool.after)
    amounts = [(name, amount, followed[name]) for name, amount in _derived(pool.before).items()]
    rows += [ValueChange(Piece(name), was, now) for name, was, now in amounts if was != now]
    same = ", ".join(f"{now} {name.removeprefix('cost ')}" for name, was, now in amounts if was == now)
    return Group(pool.name, pool.change, _gist(pool), rows, same, gpu)


def _gist(pool: PoolChange) -> str:
    if pool.renamed_from:
        return f"before {pool.renamed_from}"
    parts = [
        f"{field.name} {field.before or 'not set'} to {field.after or 'not set'}"
        for field in pool.fields[:_GIST_FIELDS]
    ]
    more = len(pool.fields) - _GIST_FIELDS
    return "; ".join([*parts, *([f"{more} more"] if more > 0 else [])])


def _derived(state: PoolState) -> dict[str, str]:
    return {
        "GPUs at most": f"{state.gpus_max}",
        "slices at most": wording.counts(state.slices_max),
        "cost a month": wording.cost_range(state.cost) if state.cost else "an unknown sum",
    }


def _amounts(state: PoolState) -> dict[str, str]:
    return {
        "GPU": state.gpu_title,
        "sharing": state.sharing,
        "machines": ", ".join(state.instance_types) or "nodes that exist already",
        "nodes": f"{state.nodes_max} at most, {state.warm} kept ready",
        **_derived(state),
    }


def change_of(field: SettingChange, code: bool = False) -> ValueChange:
    return ValueChange(Piece(field.name, "code" if code else "plain"), field.before, field.after)


def tenant_group(tenant: TenantChange) -> Group:
    rows = [
        ValueChange(
            Piece(f"quota {wording.resource_name(quota.resource)}"), f"{quota.before:,}", f"{quota.after:,}"
        )
        for quota in tenant.quota
        if quota.before != quota.after
    ]
    if tenant.renamed_from:
        rows.insert(0, ValueChange(Piece("name"), tenant.renamed_from, tenant.name))
    if tenant.budget.changed:
        rows.append(
            ValueChange(Piece("budget"), tenant.budget.before or "none", tenant.budget.after or "none")
        )
    rows += [change_of(field) for field in tenant.fields]
    return Group(tenant.name, tenant.change, f"namespace {tenant.namespace}", rows)
