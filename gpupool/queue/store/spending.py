"""Spending: budget usage, GPU hours by project and pool, alerts.

Amounts come from the ledger and from attempts that ended; holds are in the accounts alone. This module must
not know budgets or where alerts are sent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime

from gpupool.queue.domain.state import BudgetUsage
from gpupool.queue.store.database import Database, as_json, storable


@dataclass(frozen=True, slots=True)
class Usage:
    """What a project used of a pool."""

    project: str | None
    pool: str
    jobs: int
    micro: int
    gpu_seconds: float


@dataclass(frozen=True, slots=True)
class DayOfUse:
    """What attempts of a tenant used that ended on a day (UTC)."""

    tenant: str
    day: date
    micro: int
    gpu_seconds: float


@dataclass(frozen=True, slots=True)
class Spent:
    """What a tenant or project has spent in a period."""

    name: str
    """`tenant` or `tenant/project`."""
    period: date
    """Its first day."""
    micro: int


@dataclass(frozen=True, slots=True)
class Crossed:
    """A budget of which `threshold` percent are spent."""

    scope: str
    """tenant or project."""
    name: str
    """`tenant` or `tenant/project`."""
    period: date
    """Its first day."""
    threshold: int
    spent_micro: int
    limit_micro: int


@dataclass(frozen=True, slots=True)
class Alert(Crossed):
    """A message that is to be sent; its scope is `job` where it is not about a budget."""

    tries: int
    taken: list[str]
    """Channels that it was sent to."""
    text: str | None
    """What it says where it is not about a budget."""


async def totals(db: Database, now: datetime) -> dict[str, BudgetUsage]:
    """`tenant` or `tenant/project` -> usage in the current period; absent: nothing spent yet."""
    rows = await db.fetch("snapshot_accounts", now=now, tenants=None)
    return {row["name"]: BudgetUsage(row["spent_micro"], row["held_micro"]) for row in rows}


async def settled(db: Database) -> dict[str, int]:
    """`tenant` or `tenant/project` -> micro-USD that were ever settled; a tenant's are those of its projects
    too. It never falls."""
    return {row["name"]: row["micro"] for row in await db.fetch("settled")}


async def former_tenant(db: Database, named: str) -> str | None:
    """The name of a tenant that some Plan had, by its name or id. It stays known for the jobs that it had."""
    rows = await db.fetch("former_tenant", named=storable(named))
    return str(rows[0]["tenant"]) if rows else None


async def usage(db: Database, tenant: str, since: datetime, until: datetime) -> list[Usage]:
    """What a tenant's attempts used that ended in that time."""
    return [Usage(**row) for row in await db.fetch("usage", tenant=tenant, since=since, until=until)]


async def use_per_day(db: Database, tenants: Collection[str], since: datetime) -> list[DayOfUse]:
    """Use of some tenants, by day; days without any are left out."""
    rows = await db.fetch("use_per_day", tenants=sorted(tenants), since=since)
    return [DayOfUse(**row) for row in rows]


async def spent(db: Database, now: datetime, settled_since: datetime) -> list[Spent]:
    """Of the present periods, and of earlier ones on which something was settled since: a job counts for the
    period in which it was dispatched, and may end after it."""
    rows = await db.fetch("alert_accounts", now=now, settled_since=settled_since)
    return [Spent(**row) for row in rows]


async def raise_alerts(db: Database, crossed: Sequence[Crossed], now: datetime) -> None:
    """Make an alert due for each threshold that has none in its period."""
    given = [{**asdict(one), "period": one.period.isoformat()} for one in crossed]
    await db.run("alert_raise", crossed=as_json(given), now=now)


async def take_alert(db: Database, now: datetime, until: datetime) -> Alert | None:
    """An alert to send now, which no other process is given before `until`."""
    rows = await db.fetch("alert_take", now=now, until=until)
    return Alert(**rows[0]) if rows else None


async def alert_tried(db: Database, alert: Alert, now: datetime, again_at: datetime | None) -> None:
    """`alert.taken` have it; for the other channels it is due again then, None where there is no other."""
    values = {name: getattr(alert, name) for name in ("scope", "name", "period", "threshold", "taken")}
    sent_at = now if again_at is None else None
    await db.run("alert_tried", **values, sent_at=sent_at, due_at=again_at or now)
