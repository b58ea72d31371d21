"""Jobs that wait, and the offers that the Plan in force makes them.

Every job carries the Plan that its offers are of, and no claim takes one of another Plan: so there is no
moment at which stale offers count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpupool.queue.domain.fit import Fit
from gpupool.queue.domain.lanes import lane_of
from gpupool.queue.records import Job, Waiting
from gpupool.queue.store.database import Connection, Database, as_json, fetch, run
from gpupool.queue.store.dependents import lock_dependents, settle_dependents, uncount
from gpupool.queue.store.dispatch import ROLE, fence
from gpupool.queue.store.rows import job_of

BATCH_BYTES = 4 * 2**20
"""Requests of a batch: once read, they take several times as much."""


@dataclass(frozen=True, slots=True)
class Stale:
    """Jobs that wait with offers of another Plan, and are alike but for their time and their user."""

    job: Job
    """One of them."""
    ids: tuple[str, ...]
    versions: tuple[int, ...]
    enacted: bool
    """Whether that Plan was in force once: else a process accepted them that reads another file, or reads it
    earlier."""


@dataclass(frozen=True, slots=True)
class Offered:
    """What the Plan in force makes of them."""

    jobs: Stale
    fit: Fit | Waiting
    """How it takes them, or why it does not."""
    fail: bool = False
    """Whether they end, where it does not."""


async def stale(db: Database, plan_hash: str, limit: int, fields: Collection[str] | None) -> list[Stale]:
    """Queued jobs whose offers are not of this Plan, `limit` at most. `fields`: of their requests, those that
    set jobs apart; None for all."""
    values = {"plan_hash": plan_hash, "limit": limit, "bytes": BATCH_BYTES}
    rows = await db.fetch("offers_stale", **values, fields=sorted(fields) if fields is not None else None)
    return [Stale(job_of(row), tuple(row["ids"]), tuple(row["versions"]), row["enacted"]) for row in rows]


async def write(db: Database, epoch: int, plan_hash: str, offered: Sequence[Offered], now: datetime) -> None:
    """Write what became of stale jobs, all or nothing. Those that have changed since they were read are left
    out, and stay stale. Raises Deposed."""
    failed = [group for group in offered if group.fail]
    kept = [group for group in offered if not group.fail and _is_same(group)]
    changed = [group for group in offered if not group.fail and not _is_same(group)]
    async with db.transaction() as connection:
        await fence(connection, ROLE, epoch)
        if kept:
            await run(connection, "offers_kept", plan_hash=plan_hash, **_members(kept))
        if changed:
            groups = as_json([_group(number, group) for number, group in enumerate(changed)])
            numbers = [number for number, group in enumerate(changed) for _ in group.jobs.ids]
            values = {"plan_hash": plan_hash, "groups": groups, "numbers": numbers, "now": now}
            await run(connection, "offers_made", **values, **_members(changed))
        if failed:
            await _fail(connection, plan_hash, failed, now)


def _members(offered: Sequence[Offered]) -> dict[str, list[Any]]:
    return {
        "ids": [id for group in offered for id in group.jobs.ids],
        "versions": [version for group in offered for version in group.jobs.versions],
    }


def _lane(group: Offered) -> str:
    job, fit = group.jobs.job, group.fit
    if isinstance(fit, Waiting):
        return lane_of((), job.level, job.project, job.preemptible, job.preempts)
    return lane_of(fit.offers, fit.level, job.project, fit.preemptible, fit.preempts)


def _is_same(group: Offered) -> bool:
    """Whether nothing changes for these jobs: a lane is made of all that a round looks at."""
    job, fit = group.jobs.job, group.fit
    if isinstance(fit, Waiting):
        return not job.offers and job.waiting == fit
    old = lane_of(job.offers, job.level, job.project, job.preemptible, job.preempts)
    return bool(job.offers) and job.isolation == fit.isolation and old == _lane(group)


def _group(number: int, group: Offered) -> dict[str, Any]:
    job, fit = group.jobs.job, group.fit
    refused = isinstance(fit, Waiting)
    kept: Job | Fit = job if isinstance(fit, Waiting) else fit
    return {
        "number": number,
        "offers": [] if refused else [offer.as_dict() for offer in kept.offers],
        "waiting": fit.as_dict() if isinstance(fit, Waiting) else None,
        "lane": _lane(group),
        "ranked": kept.level != job.level,
        **{name: getattr(kept, name) for name in ("level", "isolation", "preemptible", "preempts")},
    }


async def _fail(connection: Connection, plan_hash: str, failed: Sequence[Offered], now: datetime) -> None:
    reasons = [
        f"{group.fit.reason.value}: {group.fit.detail}"
        for group in failed
        if isinstance(group.fit, Waiting)
        for _ in group.jobs.ids
    ]
    values = {"plan_hash": plan_hash, "reasons": reasons, "now": now}
    for tenant in sorted({group.jobs.job.tenant for group in failed}):
        await lock_dependents(connection, tenant)
    ended = await fetch(connection, "offers_failed", **values, **_members(failed))
    tenants = [row["tenant"] for row in ended]
    groups = defaultdict[str, dict[str, str | None]](dict)
    for row in ended:
        groups[row["tenant"]][row["id"]] = row["group_id"]
    for tenant, jobs in sorted(groups.items()):
        tenants += await settle_dependents(connection, tenant, jobs, now)
    await uncount(connection, tenants)
