"""What the leader of the dispatcher does: lead, and write what a round decided.

Every write holds the leader's epoch: a process that lost the lead without noticing writes nothing. This
module must not decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gpupool.queue.records import Decision, Start
from gpupool.queue.store.database import Connection, Database, as_json, fetch, run
from gpupool.queue.store.dependents import uncount
from gpupool.queue.store.errors import Deposed

ROLE = "dispatcher"
"""The role whose epoch `claim` checks."""


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
    rows = await db.fetch("lead", role=role, holder=holder, ttl_s=ttl_s)
    return rows[0]["epoch"] if rows else None


async def resign(db: Database, role: str, holder: str) -> None:
    """Let another one lead at once."""
    await db.run("resign", role=role, holder=holder)


async def fence(connection: Connection, role: str, epoch: int) -> None:
    """Keep the epoch until the transaction ends. Raises Deposed where it is over."""
    if not await fetch(connection, "fence", role=role, epoch=epoch):
        raise Deposed(role, epoch)


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
            asked = [
                {name: getattr(victim, name) for name in victim.__slots__} for victim in decision.preempts
            ]
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
        "borrowed": start.borrowed,
    }


def _clocks(starts: Sequence[Start], floors: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    charges = Counter[tuple[str, str]]()
    for start in starts:
        charges[start.offer.pool, start.tenant] += start.charge
    return [
        {"pool": key[0], "tenant": key[1], "floor": floors.get(key, 0), "charge": charge}
        for key, charge in charges.items()
    ]
