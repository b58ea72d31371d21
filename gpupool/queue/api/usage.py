"""GET /api/v1/tenants/{tenant}/usage: GPU-hours and money of a tenant by project and pool.

This module must not add up money itself beyond one answer; the ledger keeps it.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel

from gpupool.queue.api.accept import tenant_of
from gpupool.queue.api.answers import usd
from gpupool.queue.api.auth import UsageReader
from gpupool.queue.api.budgets_json import tenant_budgets_json
from gpupool.queue.api.jobs import Present
from gpupool.queue.api.problems import ApiProblem
from gpupool.queue.store import spending

router = APIRouter(prefix="/api/v1", tags=["usage"])


class UsageRow(BaseModel):
    project: str | None
    pool: str
    gpu_hours: float
    cost_usd: float
    jobs: int


class BudgetBody(BaseModel):
    scope: str
    """The tenant, or tenant/project."""
    period: str
    limit_usd: float
    spent_usd: float
    held_usd: float
    left_usd: float


class UsageBody(BaseModel):
    tenant: str
    since: datetime
    until: datetime
    gpu_hours: float
    cost_usd: float
    usage: list[UsageRow]
    budgets: list[BudgetBody]


@router.get("/tenants/{tenant}/usage", operation_id="usage", response_model=UsageBody)
async def tenant_usage(
    context: Present,
    principal: UsageReader,
    tenant: Annotated[str, Path(max_length=200, description="Name or id.")],
    since: Annotated[datetime | None, Query(description="Default: 30 days before `until`.")] = None,
    until: Annotated[datetime | None, Query(description="Default: now.")] = None,
) -> dict[str, Any]:
    """A tenant's usage between two times, and its budgets in the current period."""
    current = context.current()
    try:
        found = tenant_of(current, principal, tenant)
    except ApiProblem:
        raise ApiProblem("not-found", f"there is no tenant {tenant[:100]!r}") from None
    end = _utc(until) or context.clock()
    begin = _utc(since) or (end - timedelta(days=30) if end.year > 1 else end)
    if begin > end:
        raise ApiProblem("invalid-request", "since is later than until")
    rows = await spending.usage(context.db, found.name, begin, end)
    totals = await spending.totals(context.db, context.clock())
    return {
        "tenant": found.name,
        "since": begin,
        "until": end,
        "gpu_hours": sum(row.gpu_seconds for row in rows) / 3600,
        "cost_usd": usd(sum(row.micro for row in rows)),
        "usage": [
            {**asdict(row), "gpu_hours": row.gpu_seconds / 3600, "cost_usd": usd(row.micro)} for row in rows
        ],
        "budgets": tenant_budgets_json(current, totals, found.name),
    }


def _utc(given: datetime | None) -> datetime | None:
    """A moment without a zone is in UTC."""
    if given is None:
        return None
    if given.tzinfo is None:
        return given.replace(tzinfo=UTC)
    try:
        return given.astimezone(UTC)
    except OverflowError:
        raise ApiProblem("invalid-request", "since or until lies outside of the calendar") from None
