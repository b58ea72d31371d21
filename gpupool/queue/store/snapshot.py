"""What a round decides from, as of one moment, and what of it is kept until the next one.

Jobs and heads of lanes are read once and again when they change, and so are a tenant's accounts and clocks,
which change with its jobs alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from psycopg import AsyncCursor
from psycopg.rows import DictRow

from gpupool.queue.domain.attempt_end import on_demand_only
from gpupool.queue.domain.state import BudgetUsage, Held, Holdings, Lane, Queued, Snapshot
from gpupool.queue.records import Level, Offer, Waiting
from gpupool.queue.store.database import Connection, Database, send, send_tuples
from gpupool.queue.store.rows import offers_of, placement_of, waiting_of

LEVELS = tuple(Level)
FOREVER_S = 1 << 40
"""Of pods that nothing says the end of."""
RESYNC = timedelta(minutes=1)
"""So often everything is read again, as clients of Kubernetes' API do: rows that were deleted, or restored
with transaction numbers of another server, are not among those that changed."""
NEVER = datetime.min.replace(tzinfo=UTC)
NO_DEPTHS: Mapping[Lane, int] = {}


@dataclass(slots=True)
class Known:
    """What the last snapshot held. A caller that keeps it reads the next snapshot faster."""

    held: Holdings = field(default_factory=Holdings)
    heads: dict[Lane, list[Queued]] = field(default_factory=dict)
    waits: dict[str, Waiting] = field(default_factory=dict)
    """Why heads wait, as far as that is written. It changes without the job: the dispatcher, which
    writes it, adds it here."""
    budget_usage: dict[str, BudgetUsage] = field(default_factory=dict)
    """Of the present periods: they are read again on another day (UTC), and for other policies."""
    clocks: dict[tuple[str, str], int] = field(default_factory=dict)
    _seen: str = ""
    """The transactions whose changes are in it: PostgreSQL's pg_snapshot."""
    _plans: str = ""
    """The Plans that tenants' policies are of."""
    _now: datetime = NEVER
    _whole: datetime = NEVER
    """When everything was read."""
    _per_lane: int = 0
    _depths: Mapping[Lane, int] = field(default_factory=dict)

    async def refresh(
        self, connection: Connection, now: datetime, per_lane: int, depths: Mapping[Lane, int]
    ) -> None:
        """Read what changed. The transaction sees one moment (REPEATABLE READ). `depths`: lanes of which more
        than `per_lane` jobs are read, and how many."""
        seeing = await send_tuples(connection, "snapshot_seen")
        changing = None
        if self._seen:
            values = {"seen": self._seen, "then": self._now, "now": now}
            changing = await send_tuples(connection, "snapshot_changed", values)
        ((seen, plans),) = await seeing.fetchall()
        changed = await changing.fetchall() if changing else []
        whole = (per_lane, plans, now.date()) != (self._per_lane, self._plans, self._now.date())
        whole = whole or not self._whole <= now < self._whole + RESYNC
        if whole:
            ids, lanes, holding, tenants = set(self.held.jobs), set(self.heads), None, None
        else:
            ids = {id for id, _, _, _ in changed}
            # A job that has another lane now was a head of its former one.
            lanes = {lane for lane, heads in self.heads.items() if any(job.job in ids for job in heads)}
            lanes |= {(tenant, lane) for _, tenant, lane, _ in changed}
            lanes |= {lane for lane, depth in depths.items() if depth > self._depths.get(lane, 0)}
            holding = [id for id, _, _, holds in changed if holds]
            tenants = list({tenant for _, tenant, _, _ in changed})
        held, heads, accounts, clocks = [], [], [], []
        deeper: dict[int, list[Lane]] = {}
        for lane in sorted(depths.keys() & lanes):
            deeper.setdefault(depths[lane], []).append(lane)
        if whole or ids or lanes:
            all_held = None
            if holding != []:  # most often none of those that changed holds slots
                all_held = await send(connection, "snapshot_held", {"ids": holding}, planned=True)
            all_heads = await _send_heads(connection, None if whole else lanes, now, per_lane)
            more_heads = [await _send_heads(connection, few, now, depth) for depth, few in deeper.items()]
            values = {"now": now, "tenants": tenants}
            all_accounts = await send_tuples(connection, "snapshot_accounts", values)
            all_clocks = await send_tuples(connection, "snapshot_clocks", values)
            held = list(map(_held, await all_held.fetchall())) if all_held else []
            rows = await all_heads.fetchall()
            if more_heads:
                rows = [row for row in rows if (row["tenant"], row["lane"]) not in depths]
                for cursor in more_heads:
                    rows += await cursor.fetchall()
            heads = list(map(_head, rows))
            accounts, clocks = await all_accounts.fetchall(), await all_clocks.fetchall()
        # From here on nothing can fail: a snapshot that could not be read changes nothing.
        if whole:
            self._whole, self.budget_usage, self.clocks = now, {}, {}
        for id in ids:
            self.held.remove(id)
        for lane in lanes:
            for job in self.heads.pop(lane, ()):
                self.waits.pop(job.job, None)
        for one in held:
            self.held.add(one)
        for job, waiting in heads:
            self.heads.setdefault((job.tenant, job.lane), []).append(job)
            if waiting:
                self.waits[job.job] = _waiting(waiting)
        self.budget_usage.update((name, BudgetUsage(spent, held)) for name, spent, held in accounts)
        self.clocks.update(((pool, tenant), int(clock)) for pool, tenant, clock in clocks)
        self._seen, self._plans, self._now, self._per_lane = seen, plans, now, per_lane
        self._depths = dict(depths)


async def take_snapshot(
    db: Database,
    now: datetime,
    per_lane: int,
    known: Known | None = None,
    depths: Mapping[Lane, int] = NO_DEPTHS,
) -> Snapshot:
    """Everything that a round decides from, as of one moment; at most `per_lane` jobs of each lane, or as
    many as `depths` has for it."""
    known = known or Known()
    async with db.pipeline() as connection:
        await connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        pods = await send(connection, "snapshot_foreign_pods")
        reserving = await send_tuples(connection, "snapshot_reservations")
        await known.refresh(connection, now, per_lane, depths)
        foreign, reservations = await pods.fetchall(), await reserving.fetchall()
    present = known.held.copy()
    for row in foreign:
        present.add(_foreign(row))
    return Snapshot(
        now=now.timestamp(),
        held=present,
        lanes={lane: tuple(heads) for lane, heads in known.heads.items()},
        budget_usage=dict(known.budget_usage),
        clocks=dict(known.clocks),
        reservations=dict(reservations),
        waits=dict(known.waits),
    )


def _held(row: Mapping[str, Any]) -> Held:
    return Held(**{**row, "level": LEVELS[row["level"]], "placement": placement_of(row["placement"])})


def _foreign(row: Mapping[str, Any]) -> Held:
    """Slots that a tenant's own pods hold: they count like a job's, and can't be preempted."""
    return Held(
        job=f"pods of {row['tenant']}",
        attempt=0,
        tenant=row["tenant"],
        project=None,
        level=Level.CRITICAL,
        pool=row["pool"],
        resource=row["resource"],
        capacity_type=row["capacity_type"],
        placement=((row["node"], row["units"]),),
        gpu_micro=row["gpu_micro"],
        hold_micro=0,
        since=0,
        run_limit_s=FOREVER_S,
        preemptible=False,
    )


async def _send_heads(
    connection: Connection, lanes: Collection[Lane] | None, now: datetime, per_lane: int
) -> AsyncCursor[DictRow]:
    """Ask for the first jobs of these lanes, or of all."""
    tenants, names = (None, None) if lanes is None else map(list, zip(*lanes, strict=True))
    values = {"tenants": tenants, "lanes": names, "now": now, "per_lane": per_lane}
    # A plan for any number of jobs per lane reads whole tenants instead of the beginnings of lanes.
    return await send(connection, "snapshot_heads", values, planned=True)


def _head(row: DictRow) -> tuple[Queued, str | None]:
    """A job that waits, and why, as far as that is written."""
    waiting = row.pop("waiting")
    row["on_demand_only"] = on_demand_only(row.pop("spot_losses"), row.pop("retries"))
    return Queued(**{**row, "level": LEVELS[row["level"]], "offers": _offers(row["offers"])}), waiting


@lru_cache(4096)
def _offers(text: str) -> tuple[Offer, ...]:
    """Many lanes have the same."""
    return offers_of(json.loads(text))


@lru_cache(4096)
def _waiting(text: str) -> Waiting:
    return waiting_of(json.loads(text))
