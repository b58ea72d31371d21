"""What a round decides from, as of one moment, and what of it is kept until the next one.

Jobs and heads of lanes are read once and again when they change, and so are a tenant's accounts and clocks,
which change with its jobs alone. This module must not write.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from gpupool.queue.domain.state import Account, Held, Holdings, Queued, Snapshot
from gpupool.queue.records import Level, Offer, Waiting
from gpupool.queue.store.database import Connection, Database, fetch, fetch_planned, fetch_tuples
from gpupool.queue.store.rows import offers_of, placement_of, waiting_of

LEVELS = tuple(Level)
FOREVER_S = 1 << 40
"""Of pods that nothing says the end of."""
RESYNC = timedelta(minutes=1)
"""So often everything is read again, as clients of Kubernetes' API do: rows that were deleted, or restored
with transaction numbers of another server, are not among those that changed."""
NEVER = datetime.min.replace(tzinfo=UTC)

Lane = tuple[str, str]
"""(tenant, lane)"""


@dataclass(slots=True)
class Known:
    """What the last snapshot held. A caller that keeps it reads the next snapshot faster."""

    held: Holdings = field(default_factory=Holdings)
    heads: dict[Lane, list[Queued]] = field(default_factory=dict)
    waits: dict[str, Waiting] = field(default_factory=dict)
    """Why heads wait, as far as that is written. It changes without the job: the dispatcher, which
    writes it, adds it here."""
    accounts: dict[str, Account] = field(default_factory=dict)
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

    async def refresh(self, connection: Connection, now: datetime, per_lane: int) -> None:
        """Read what changed. The transaction sees one moment (REPEATABLE READ)."""
        seen, plans = (await fetch_tuples(connection, "snapshot_seen"))[0]
        whole = (per_lane, plans, now.date()) != (self._per_lane, self._plans, self._now.date())
        whole = whole or not self._whole <= now < self._whole + RESYNC
        ids, lanes, holding, tenants = set(self.held.jobs), set(self.heads), None, None
        if not whole:
            values = {"seen": self._seen, "then": self._now, "now": now}
            changed = await fetch_tuples(connection, "snapshot_changed", values)
            ids = {id for id, _, _, _ in changed}
            # A job that has another lane now was a head of its former one.
            lanes = {lane for lane, heads in self.heads.items() if any(job.job in ids for job in heads)}
            lanes |= {(tenant, lane) for _, tenant, lane, _ in changed}
            tenants = list({tenant for _, tenant, _, _ in changed})
            holding = [id for id, _, _, holds in changed if holds]
        held, heads, accounts, clocks = [], [], [], []
        if whole or ids:
            held = await _held(connection, holding) if holding != [] else []
            heads = await _heads(connection, None if whole else lanes, now, per_lane)
            accounts = await fetch_tuples(connection, "snapshot_accounts", {"now": now, "tenants": tenants})
            clocks = await fetch_tuples(connection, "snapshot_clocks", {"tenants": tenants})
        # From here on nothing can fail: a snapshot that could not be read changes nothing.
        if whole:
            self._whole, self.accounts, self.clocks = now, {}, {}
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
        self.accounts.update((name, Account(spent, held)) for name, spent, held in accounts)
        self.clocks.update(((pool, tenant), int(clock)) for pool, tenant, clock in clocks)
        self._seen, self._plans, self._now, self._per_lane = seen, plans, now, per_lane


async def take_snapshot(db: Database, now: datetime, per_lane: int, known: Known | None = None) -> Snapshot:
    """Everything that a round decides from, as of one moment; at most `per_lane` jobs of each lane."""
    known = known or Known()
    async with db.transaction() as connection:
        await connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        await known.refresh(connection, now, per_lane)
        foreign = await fetch(connection, "snapshot_foreign_pods")
        reservations = await fetch(connection, "snapshot_reservations")
    present = known.held.copy()
    for row in foreign:
        present.add(_foreign(row))
    return Snapshot(
        now=now.timestamp(),
        held=present,
        queued=tuple(job for heads in known.heads.values() for job in heads),
        accounts=dict(known.accounts),
        clocks=dict(known.clocks),
        reservations={row["pool"]: row["job"] for row in reservations},
        waits=dict(known.waits),
    )


async def _held(connection: Connection, ids: list[str] | None) -> list[Held]:
    """Jobs that hold slots: these ones, or all."""
    # A plan for both would look through all of them.
    rows = await fetch_planned(connection, "snapshot_held", ids=ids)
    return [
        Held(**{**row, "level": LEVELS[row["level"]], "placement": placement_of(row["placement"])})
        for row in rows
    ]


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


async def _heads(
    connection: Connection, lanes: Collection[Lane] | None, now: datetime, per_lane: int
) -> list[tuple[Queued, str | None]]:
    """The first jobs of these lanes, or of all, and why each waits as far as that is written."""
    tenants, names = (None, None) if lanes is None else map(list, zip(*lanes, strict=True))
    values = {"tenants": tenants, "lanes": names, "now": now, "per_lane": per_lane}
    # A plan for any number of jobs per lane reads whole tenants instead of the beginnings of lanes.
    rows = await fetch_planned(connection, "snapshot_heads", **values)
    waits = [row.pop("waiting") for row in rows]
    jobs = [
        Queued(**{**row, "level": LEVELS[row["level"]], "offers": _offers(row["offers"])}) for row in rows
    ]
    return list(zip(jobs, waits, strict=True))


@lru_cache(4096)
def _offers(text: str) -> tuple[Offer, ...]:
    """Many lanes have the same."""
    return offers_of(json.loads(text))


@lru_cache(4096)
def _waiting(text: str) -> Waiting:
    return waiting_of(json.loads(text))
