"""What everything together may cost a month, against what pools can cost and what tenants may spend."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.money import usd_exact
from gpupool.environment.plan.pool_cost import HOURS_PER_MONTH, monthly_cost
from gpupool.environment.spec.tenants import Budget
from gpupool.policy.rules.bundle import ObjectSet
from gpupool.policy.rules.rule import RuleViolation

_HOURS = {"day": 24, "week": 168, "month": HOURS_PER_MONTH}


def ceiling(bundle: ObjectSet) -> Iterator[RuleViolation]:
    plan = bundle.plan
    if plan is None or plan.monthly_usd_max is None:
        return
    most = plan.monthly_usd_max
    costs = {pool.name: monthly_cost(pool) for pool in plan.pools}
    unknown = [name for name, cost in costs.items() if cost is None]
    if unknown:
        message = (
            f"can't check whether pools stay within {usd_exact(most)} a month: there is no known price for "
            f"{', '.join(unknown)}"
        )
        yield RuleViolation(message, path="cost.monthlyUsdMax", values={"ceiling": most, "unpriced": unknown})
    ceilings = {name: cost.ceiling for name, cost in costs.items() if cost}
    total = sum(ceilings.values())
    if total > most:
        costliest = max(ceilings, key=lambda name: ceilings[name])
        message = (
            f"all pools at their maximum cost {usd_exact(total)} a month, but the limit is "
            f"{usd_exact(most)}; the most expensive is {costliest} with {usd_exact(ceilings[costliest])}"
        )
        yield RuleViolation(message, path="cost.monthlyUsdMax", values={"ceiling": most, "pools": ceilings})


def budgets(bundle: ObjectSet) -> Iterator[RuleViolation]:
    plan = bundle.plan
    if plan is None or plan.monthly_usd_max is None:
        return
    spend = {tenant.name: monthly(tenant.budget) for tenant in plan.tenants if tenant.budget}
    total = sum(spend.values())
    if total > plan.monthly_usd_max:
        message = (
            f"tenants may spend {usd_exact(total)} a month, but the limit is "
            f"{usd_exact(plan.monthly_usd_max)}"
        )
        values = {"ceiling": plan.monthly_usd_max, "budgets": spend}
        yield RuleViolation(message, path="cost.monthlyUsdMax", values=values)


def monthly(budget: Budget) -> float:
    """A budget of any period in USD per month of 730 hours."""
    return round(budget.usd * HOURS_PER_MONTH / _HOURS[budget.period], 2)
