"""What the leader of the dispatcher does: lead, see everything, write what a round decided.

Every write holds the leader's epoch: a process that lost the lead without noticing writes nothing. This
module must not decide.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from gpupool.queue.domain.state import Account, Held, Queued, Snapshot
from gpupool.queue.records import Decision, Level, Offer, Start, Waiting
from gpupool.queue.store.database import Connection, Database, as_json, fetch, fetch_tuples, run
from gpupool.queue.store.dependents import uncount
from gpupool.queue.store.errors import Deposed
from gpupool.queue.store.rows import offers_of, placement_of, waiting_of

ROLE = "dispatcher"
"""The role whose epoch `claim` checks."""
LEVELS = tuple(Level)
FOREVER_S = 1 << 40
"""Of pods that nothing says the end of."""


@dataclass(frozen=True, slots=True)
class ProjectPolicy:
    """What the store needs of a project."""

    budget_micro: int | None = None
    period: str = "month"


@dataclass(frozen=True, slots=True)
class TenantPolicy:
    """What the Plan says of a tenant. The store itself uses the weight and the periods."""

    tenant: str
    tenant_id: str | None = None
    weight: float = 1.0
    running_limit: int | None = None
    queued_limit: int | None = None
    gpus_per_job: int | None = None
    budget_micro: int | None = None
    period: str = "month"
    """day, week or month."""
    projects: Mapping[str, ProjectPolicy] = field(default_factory=dict)


async def lead(db: Database, role: str, holder: str, ttl_s: float) -> int | None:
    """Become or stay the leader of a role for so long; its epoch, or None while another holder leads."""
    async with db.connection() as connection:
        rows = await fetch(connection, "lead", role=role, holder=holder, ttl_s=ttl_s)
    return rows[0]["epoch"] if rows else None


async def resign(db: Database, role: str, holder: str) -> None:
    """Let another one lead at once."""
    async with db.connection() as connection:
        await run(connection, "resign", role=role, holder=holder)


async def fence(connection: Connection, role: str, epoch: int) -> None:
    """Keep the epoch until the transaction ends. Raises Deposed where it is over."""
    if not await fetch(connection, "fence", role=role, epoch=epoch):
        raise Deposed(role, epoch)


Seen = tuple[str, int]
"""A job and its version."""


@dataclass(slots=True)
class Known:
    """What the last snapshot read. A job of the same version is not read again: all of it but `waiting` and
    its lease changes with the version."""

    held: dict[Seen, Held] = field(default_factory=dict)
    queued: dict[Seen, Queued] = field(default_factory=dict)
    offers: dict[str, tuple[Offer, ...]] = field(default_factory=dict)
    """Of each lane, which its name is made from."""


async def snapshot(db: Database, now: datetime, per_lane: int, known: Known | None = None) -> Snapshot:
    """Everything that a round decides from, as of one moment; at most `per_lane` jobs of each lane."""
    known = known or Known()
    async with db.transaction() as connection:
        await connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        held = await fetch_tuples(connection, "snapshot_held")
        foreign = await fetch(connection, "snapshot_foreign_pods")
        # A plan for any number of jobs per lane reads whole tenants instead of the beginnings of lanes.
        heads = await fetch_tuples(
            connection, "snapshot_heads", {"now": now, "per_lane": per_lane}, prepare=False
        )
        queued = [(id, version) for id, version, _ in heads]
        await _read(connection, known, held, queued)
        accounts = await fetch_tuples(connection, "snapshot_accounts", {"now": now})
        clocks = await fetch_tuples(connection, "snapshot_clocks")
        reservations = await fetch(connection, "snapshot_reservations")
    return Snapshot(
        now=now.timestamp(),
        held=(*known.held.values(), *map(_foreign, foreign)),
        queued=tuple(known.queued.values()),
        accounts={name: Account(spent, held) for name, spent, held in accounts},
        clocks={(pool, tenant): int(clock) for pool, tenant, clock in clocks},
        reservations={row["pool"]: row["job"] for row in reservations},
        waits={id: _waiting(text) for id, _, text in heads if text},
    )


async def claim(
    db: Database, epoch: int, decision: Decision, plan_hash: str, lease_s: float, now: datetime
) -> list[str]:
    """Write what a round decided, all or nothing; the jobs that start.

    A job that changed since the round saw it (cancelled, claimed) is left out. Raises Deposed.
    """
    starts = {start.job: start for start in decision.starts}
    async with db.transaction() as connection:
        await fence(connection, ROLE, epoch)
        claimed: list[dict[str, Any]] = []
        if starts:
            given = as_json([_start(start) for start in decision.starts])
            values = {"plan_hash": plan_hash, "lease_s": lease_s, "now": now}
            claimed = await fetch(connection, "claim", starts=given, **values)
        if decision.preempts:
            asked = [{name: getattr(one, name) for name in one.__slots__} for one in decision.preempts]
            await run(connection, "claim_preempts", preempts=as_json(asked), now=now)
        waits = {job: waiting for job, waiting in decision.waits.items() if job not in starts}
        if waits:
            changed = [{"job": job, "waiting": waiting.as_dict()} for job, waiting in waits.items()]
            await run(connection, "claim_waits", waits=as_json(changed))
        held = decision.reservations
        await run(connection, "claim_reservations", pools=list(held), ids=list(held.values()), now=now)
        if claimed:
            ids = [row["id"] for row in claimed]
            await run(connection, "claim_accounts", ids=ids, attempts=[row["attempt"] for row in claimed])
            clocks = _clocks([starts[id] for id in ids], decision.floors)
            await run(connection, "claim_clocks", clocks=as_json(clocks))
            await uncount(connection, [row["tenant"] for row in claimed])
    return [row["id"] for row in claimed]


async def mirror(db: Database, plan_hash: str, policies: Sequence[TenantPolicy]) -> None:
    """Copy what the Plan says of tenants. Tenants that it no longer has stay: their jobs may still run."""
    given = [
        {
            **{name: getattr(policy, name) for name in policy.__slots__ if name != "projects"},
            "projects": {
                name: {"budget_micro": project.budget_micro, "period": project.period}
                for name, project in policy.projects.items()
            },
        }
        for policy in policies
    ]
    async with db.connection() as connection:
        await run(connection, "mirror", policies=as_json(given), plan_hash=plan_hash)


async def _read(connection: Connection, known: Known, held: list[Seen], queued: list[Seen]) -> None:
    """Make `known` these jobs, in their order; those that it does not have are read."""
    if new := [id for id, version in held if (id, version) not in known.held]:
        for row in await fetch(connection, "snapshot_held_jobs", ids=new):
            known.held[row["id"], row["version"]] = _held(row)
    if new := [id for id, version in queued if (id, version) not in known.queued]:
        rows = await fetch(connection, "snapshot_queued_jobs", ids=new)
        if lanes := {row["lane"] for row in rows} - known.offers.keys():
            for row in await fetch(connection, "lane_offers", lanes=list(lanes)):
                known.offers[row["lane"]] = offers_of(row["offers"])
        for row in rows:
            known.queued[row["id"], row["version"]] = _queued(row, known.offers[row["lane"]])
    known.held = {seen: known.held[seen] for seen in held}
    known.queued = {seen: known.queued[seen] for seen in queued}
    known.offers = {job.lane: job.offers for job in known.queued.values()}


def _held(row: Mapping[str, Any]) -> Held:
    return Held(
        job=row["id"],
        attempt=row["attempt"],
        tenant=row["tenant"],
        project=row["project"],
        level=LEVELS[row["level"]],
        pool=row["pool"],
        resource=row["resource"],
        capacity_type=row["capacity_type"],
        placement=placement_of(row["placement"]),
        gpu_micro=row["gpu_micro"],
        hold_micro=row["hold_micro"],
        since=row["since"],
        run_limit_s=row["run_limit_s"],
        preemptible=row["preemptible"],
        preempting_for=row["preempting_for"],
    )


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


@lru_cache(4096)
def _waiting(text: str) -> Waiting:
    """Few are different, and each head has one in every round."""
    return waiting_of(json.loads(text))


def _queued(row: Mapping[str, Any], offers: tuple[Offer, ...]) -> Queued:
    return Queued(
        job=row["id"],
        attempt=row["attempt"],
        tenant=row["tenant"],
        project=row["project"],
        lane=row["lane"],
        level=LEVELS[row["level"]],
        enqueued=row["enqueued"],
        offers=offers,
        timeout_s=row["timeout_s"],
        budget_limit_micro=row["budget_limit_micro"],
        spent_micro=row["cost_micro"],
        preemptible=row["preemptible"],
        preempts=row["preempts"],
        on_demand_only=row["on_demand_only"],
    )


def _start(start: Start) -> dict[str, Any]:
    offer = start.offer
    return {
        "job": start.job,
        "attempt": start.attempt,
        "pool": offer.pool,
        "resource": offer.resource,
        "gpu_key": offer.key,
        "gpu_micro": offer.gpu_micro,
        "capacity_type": start.capacity_type,
        "placement": start.placement,
        "rate_micro": start.rate_micro,
        "hold_micro": start.hold_micro,
        "run_limit_s": start.run_limit_s,
    }


def _clocks(starts: Sequence[Start], floors: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    charges = Counter[tuple[str, str]]()
    for start in starts:
        charges[start.offer.pool, start.tenant] += start.charge
    return [
        {"pool": key[0], "tenant": key[1], "floor": floors.get(key, 0), "charge": charge}
        for key, charge in charges.items()
    ]
