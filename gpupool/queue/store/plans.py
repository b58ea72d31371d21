"""Which Plan is in force: the one by which the leader decides.

Processes may read other files, or the same one earlier or later. What counts is what the leader of the
dispatcher has written here, under its epoch. This module must not know what is in a Plan but for its tenants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from gpupool.queue.records import PlanInForce
from gpupool.queue.store.database import Database, as_json, run
from gpupool.queue.store.dispatch import ROLE, TenantPolicy, fence


async def enact(
    db: Database,
    epoch: int,
    plan_hash: str,
    policies: Sequence[TenantPolicy],
    holder: str,
    now: datetime,
) -> None:
    """This Plan is in force, with what it says of tenants. Tenants that it no longer has stay: their jobs may
    still run. Raises Deposed."""
    async with db.transaction() as connection:
        await fence(connection, ROLE, epoch)
        stored = as_json([asdict(policy) for policy in policies])
        await run(connection, "mirror", policies=stored, plan_hash=plan_hash)
        await run(connection, "plan_enacted", plan_hash=plan_hash, holder=holder, now=now)


async def in_force(db: Database) -> PlanInForce | None:
    """The Plan in force; None before any leader has decided."""
    rows = await db.fetch("plan_in_force")
    return PlanInForce(**rows[0]) if rows else None
