"""Money and use: totals of accounts, use by project and pool, spend per day, alerts.

Amounts come from the ledger and from attempts that ended; holds are in the accounts alone. This module must
not know budgets or where alerts are sent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from gpupool.queue.domain.state import Account
from gpupool.queue.store.database import Database, as_json, fetch, run


@dataclass(frozen=True, slots=True)
class Usage:
    """What a project used of a pool."""

    project: str | None
    pool: str
    jobs: int
    micro: int
    gpu_seconds: float


@dataclass(frozen=True, slots=True)
class Spend:
    """What was settled on a day (UTC)."""

    day: date
    project: str | None
    micro: int


@dataclass(frozen=True, slots=True)
class DayOfUse:
    """What attempts of a tenant used that ended on a day (UTC)."""

    tenant: str
    day: date
    micro: int
    gpu_seconds: float


@dataclass(frozen=True, slots=True)
class Crossed:
    """A budget of which `threshold` percent are spent."""

    scope: str
    """tenant or project."""
    name: str
    """`tenant` or `tenant/project`."""
    period: str
    """day, week or month."""
    threshold: int
    spent_micro: int
    limit_micro: int


@dataclass(frozen=True, slots=True)
class Alert:
    """A message that is to be sent."""

    scope: str
    """tenant, project, or job where it is not about a budget."""
    name: str
    period: date
    """First day of the budget's period."""
    threshold: int
    spent_micro: int
    limit_micro: int
    tries: int
    text: str | None
    """What it says where it is not about a budget."""


async def totals(db: Database, now: datetime) -> dict[str, Account]:
    """`tenant` or `tenant/project` -> account of the present period; absent: nothing spent yet."""
    async with db.connection() as connection:
        rows = await fetch(connection, "snapshot_accounts", now=now)
    return {row["name"]: Account(row["spent_micro"], row["held_micro"]) for row in rows}


async def usage(db: Database, tenant: str, since: datetime, until: datetime) -> list[Usage]:
    """What a tenant's attempts used that ended in that time."""
    async with db.connection() as connection:
        return [
            Usage(**row) for row in await fetch(connection, "usage", tenant=tenant, since=since, until=until)
        ]


async def spend_per_day(db: Database, tenant: str, since: datetime, until: datetime) -> list[Spend]:
    values = {"tenant": tenant, "since": since, "until": until}
    async with db.connection() as connection:
        return [Spend(**row) for row in await fetch(connection, "spend_per_day", **values)]


async def use_per_day(db: Database, tenants: Collection[str], since: datetime) -> list[DayOfUse]:
    """Use of some tenants, by day; days without any are left out."""
    async with db.connection() as connection:
        rows = await fetch(connection, "use_per_day", tenants=sorted(tenants), since=since)
    return [DayOfUse(**row) for row in rows]


async def raise_alerts(db: Database, crossed: Sequence[Crossed], now: datetime) -> None:
    """Make an alert due for each threshold that has none in this period."""
    given = [{name: getattr(one, name) for name in one.__slots__} for one in crossed]
    async with db.connection() as connection:
        await run(connection, "alert_raise", crossed=as_json(given), now=now)


async def alerts_due(db: Database, now: datetime, limit: int = 20) -> list[Alert]:
    """Alerts to send now."""
    async with db.connection() as connection:
        return [Alert(**row) for row in await fetch(connection, "alerts_due", now=now, limit=limit)]


async def alert_sent(db: Database, alert: Alert, now: datetime) -> None:
    await _tried(db, alert, sent_at=now, due_at=now)


async def alert_failed(db: Database, alert: Alert, again_at: datetime) -> None:
    """It could not be sent; it is due again then."""
    await _tried(db, alert, sent_at=None, due_at=again_at)


async def _tried(db: Database, alert: Alert, sent_at: datetime | None, due_at: datetime) -> None:
    key = {name: getattr(alert, name) for name in ("scope", "name", "period", "threshold")}
    async with db.connection() as connection:
        await run(connection, "alert_tried", **key, sent_at=sent_at, due_at=due_at)
