"""Tenants' shares and budgets over time, as the overview shows them.

A tenant sees its own. This module must not draw: `gpupool.queue.web.charts` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from gpupool.environment.plan.model import Pool
from gpupool.environment.plan.tenants import Tenant
from gpupool.queue.api.context import RequestContext
from gpupool.queue.domain import cost
from gpupool.queue.domain.borrowing import grant_usages
from gpupool.queue.domain.state import BudgetUsage, Snapshot
from gpupool.queue.records import MICRO
from gpupool.queue.store.spending import DayOfUse
from gpupool.queue.web import charts
from gpupool.queue.web.page_cache import DAYS, Remembered, since
from gpupool.queue.web.rendering import money
from gpupool.queue.web.visitor import Visitor


async def of(
    context: RequestContext,
    visitor: Visitor,
    shared: Remembered,
    seen: Snapshot,
    depth: Mapping[tuple[str, int], int],
    colours: Mapping[str, str],
) -> dict[str, Any]:
    """The values of the template's last part; empty where the credential may not read usage."""
    if not visitor.principal.may("usage:read"):
        return {"tenants": [], "now": None, "hours_chart": None, "money_chart": None}
    mine = (visitor.chosen,) if visitor.chosen else visitor.tenants
    use = await shared.use(mine)
    hourly, places = Counter[str](), Counter[tuple[str, str]]()
    for share, micro in cost.per_hour(seen, context.current().supply).items():
        if share.tenant in mine:
            hourly[share.tenant] += micro
            places[share.pool, share.capacity_type] += micro
    first = since(context.clock()).date()
    days = [first + timedelta(days=index) for index in range(DAYS)]
    total = sum(row.gpu_seconds for row in use)
    rows = [
        _tenant(context, tenant, use, seen, depth, total, colours[tenant.name])
        | {"hourly": hourly[tenant.name]}
        for tenant in context.plan().tenants
        if tenant.name in mine
    ]
    hours = "; ".join(f"{row['name']} {row['gpu_hours']:.1f}" for row in rows)
    spent = "; ".join(f"{row['name']} {money(row['spent'])}" for row in rows)
    return {
        "tenants": rows,
        "now": {
            "hourly": hourly.total(),
            "places": [(*place, micro) for place, micro in places.most_common() if micro],
        },
        "hours_chart": charts.per_day(
            use, "gpu_seconds", f"GPU hours of {DAYS} days: {hours}", days, colours
        ),
        "money_chart": charts.per_day(use, "micro", f"Cost of {DAYS} days: {spent}", days, colours),
    }


def grants(context: RequestContext, visitor: Visitor, seen: Snapshot, pool: Pool) -> list[dict[str, Any]]:
    """What the visitor's tenants have of a pool of which tenants may borrow; empty of another one."""
    if not any(pool.name in tenant.up_to for tenant in context.plan().tenants):
        return []
    return [
        {
            "tenant": use.tenant,
            "profile": use.resource.rpartition("/mig-")[2] if pool.sharing.layout else "",
            "use": use,
        }
        for use in grant_usages(context.current().supply, seen.held)
        if use.pool == pool.name and visitor.principal.acts_for(use.tenant)
    ]


def _tenant(
    context: RequestContext,
    tenant: Tenant,
    use: list[DayOfUse],
    seen: Snapshot,
    depth: Mapping[tuple[str, int], int],
    total: float,
    colour: str,
) -> dict[str, Any]:
    own = [row for row in use if row.tenant == tenant.name]
    held = [job for job in seen.held if job.tenant == tenant.name]
    seconds = sum(row.gpu_seconds for row in own)
    return {
        "name": tenant.name,
        "colour": colour,
        "weight": tenant.weight,
        "queued": sum(count for (name, _), count in depth.items() if name == tenant.name),
        "running": sum(job.of_queue for job in held),
        "gpus": sum(job.gpu_micro for job in held) / MICRO,
        "gpu_hours": seconds / 3600,
        "share": seconds / total if total else 0.0,
        "spent": sum(row.micro for row in own),
        "budgets": _budgets(context, tenant, own, seen),
    }


def _budgets(
    context: RequestContext, tenant: Tenant, own: list[DayOfUse], seen: Snapshot
) -> list[dict[str, Any]]:
    today = context.clock().date()
    rows = []
    for scope, allowance in context.current().supply.tenants[tenant.name].budgets.items():
        usage = seen.budget_usage.get(scope, BudgetUsage(0, 0))
        days = charts.period_days(allowance.period, today)
        spent = {row.day: row.micro for row in own} if scope == tenant.name else {}
        # Days are as attempts ended; what the account has beyond them stands on the last day.
        known = sum(micro for day, micro in spent.items() if day in days)
        spent[today] = spent.get(today, 0) + max(0, usage.spent_micro - known)
        said = f"{money(usage.spent_micro)} spent and {money(usage.held_micro)} held of "
        said += f"{money(allowance.limit_micro)} this {allowance.period}"
        picture = charts.budget(
            spent, usage.held_micro, allowance.limit_micro, days, today, f"{scope}: {said}"
        )
        rows.append({"scope": scope, "said": said, "picture": picture, "days": (days[0], days[-1])})
    return rows
