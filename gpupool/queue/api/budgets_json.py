"""Budgets in the present period, as the API answers them: a tenant's, and those that a job counts against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupool.queue.api.answers import usd
from gpupool.queue.domain.budget import budgets_of
from gpupool.queue.domain.current import Current
from gpupool.queue.domain.state import BudgetUsage, Queued
from gpupool.queue.domain.supply import Allowance


def tenant_budgets_json(
    current: Current, usage: Mapping[str, BudgetUsage], tenant: str
) -> list[dict[str, Any]]:
    """The budgets of a tenant and of its projects."""
    return [
        _budget_json(scope, allowance, allowance.limit_micro, usage.get(scope, BudgetUsage(0, 0)))
        for scope, allowance in current.supply.tenants[tenant].budgets.items()
    ]


def job_budgets_json(
    current: Current, usage: Mapping[str, BudgetUsage], job: Queued, estimate_micro: int
) -> list[dict[str, Any]]:
    """Each budget that the job counts against, with the job's limit, and whether it has room for
    `estimate_micro`."""
    found = [_budget_json(*budget) for budget in budgets_of(job, current.supply.tenants[job.tenant], usage)]
    return [{**budget, "allows": usd(estimate_micro) <= budget["left_usd"]} for budget in found]


def _budget_json(scope: str, allowance: Allowance, limit_micro: int, used: BudgetUsage) -> dict[str, Any]:
    return {
        "scope": scope,
        "period": allowance.period,
        "limit_usd": usd(limit_micro),
        "spent_usd": usd(used.spent_micro),
        "held_usd": usd(used.held_micro),
        "left_usd": usd(limit_micro - used.spent_micro - used.held_micro),
    }
