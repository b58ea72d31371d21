"""The queue as the next round would see it: why a job waits, what a new one would wait for.

The view is at most a second old, and one explanation is worked out at a time, off the event loop: a round
over a long queue takes a while. This module must not decide anything: `gpupool.queue.domain.explain` asks the
round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gpupool.queue.api.answers import offer_json, time_text, usd
from gpupool.queue.api.cache import Cache
from gpupool.queue.api.request_limits import AtOnce
from gpupool.queue.domain.current import Current
from gpupool.queue.domain.explain import ExplainedJob, Explanation, View, explain
from gpupool.queue.domain.lanes import lane_of
from gpupool.queue.domain.projection import Projection
from gpupool.queue.domain.state import BudgetUsage, Queued, Snapshot
from gpupool.queue.records import Job, Level, Principal
from gpupool.queue.store import order
from gpupool.queue.store.database import Database
from gpupool.queue.store.snapshot import Known, take_snapshot

PER_LANE = 20
"""Jobs of each lane that an explanation looks at."""
FRESH_SECONDS = 1.0
ASKED_EACH, ASKED_ALL = 8, 32
"""Explanations of one caller, and of all, that may wait for each other; each plays many rounds forward."""


class Explanations:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._working = asyncio.Lock()
        self._seen = Cache[None, Snapshot](FRESH_SECONDS)
        self._known = Known()
        self._asked = AtOnce("explanations", ASKED_EACH, ASKED_ALL)
        self._explained = dict[Queued, Explanation]()
        self._explained_of: View | None = None

    async def snapshot(self, at: datetime) -> Snapshot:
        """The queue as it was at most a second ago."""
        return await self._seen.get(
            None, at.timestamp(), lambda: take_snapshot(self._db, at, PER_LANE, self._known)
        )

    async def view(self, current: Current, at: datetime) -> View:
        """The same, as it is explained."""
        seen = await self.snapshot(at)
        view = self._explained_of
        if view is None or view.snapshot is not seen or view.supply is not current.supply:
            view = self._explained_of = View(seen, current.supply, PER_LANE)
            self._explained = {}
        return view

    async def of(self, current: Current, job: Queued, at: datetime, reader: Principal) -> Explanation:
        """Explain a queued job, or one that would be. Raises ApiProblem where `reader`, or everybody, asks
        for too many at once."""
        view = await self.view(current, at)
        known = next((other for other in view.snapshot.queued if other.job == job.job), job)
        with self._asked.hold(reader.rate_limit_key) as held:
            held.take()
            async with self._working:
                return await self._once(view, known, at)

    async def _once(self, view: View, job: Queued, at: datetime) -> Explanation:
        """Work an explanation out, once for each view of the queue."""
        explained = self._explained if view is self._explained_of else {}
        if job not in explained:
            case = ExplainedJob(view, job)
            places, rivals = await asyncio.to_thread(lambda: (case.places, case.to_count))
            line = await order.line(self._db, job, places, at) if case.far and places else None
            counts = await order.counts(self._db, rivals, at)
            explained[job] = await asyncio.to_thread(explain, case, line, counts)
        return explained[job]


def queued_of(job: Job) -> Queued:
    """A job as a round sees it."""
    return Queued(
        job=job.id,
        attempt=job.attempt,
        tenant=job.tenant,
        project=job.project,
        lane=lane_of(job.offers, job.level, job.project, job.preemptible, job.preempts),
        level=job.level,
        enqueued=job.enqueued_at.timestamp(),
        offers=job.offers,
        timeout_s=job.timeout_s,
        budget_limit_micro=job.budget_limit_micro,
        spent_micro=job.cost_micro,
        preemptible=job.preemptible,
        preempts=job.preempts,
    )


def explanation_json(found: Explanation, tenant: str, reader: Principal) -> dict[str, Any]:
    """The explanation of a job of `tenant`, as `reader` may see it."""
    terms = dict(found.terms)
    if not reader.acts_for("*"):
        _hide_others(terms, tenant)
    return {
        "waiting": found.waiting,
        "position": found.ahead,
        **projection_json(found.projection),
        "terms": terms,
    }


def projection_json(projection: Projection | None) -> dict[str, Any]:
    """When a job starts, and what that time is."""
    if projection is None:
        return {"projected_start": None, "projection": None}
    time = time_text(datetime.fromtimestamp(projection.at, UTC))
    return {"projected_start": time, "projection": "start" if projection.exact else "after"}


def _hide_others(terms: dict[str, Any], tenant: str) -> None:
    """Other tenants' clocks without their names, and no ids of their jobs."""
    clocks = terms.get("fair_clock", {}).get("gpu_hours", {})
    others = [hours for name, hours in sorted(clocks.items()) if name != tenant]
    if clocks:
        terms["fair_clock"] = {
            **terms["fair_clock"],
            "gpu_hours": {tenant: clocks[tenant]} if tenant in clocks else {},
            "gpu_hours_of_others": sorted(others),
        }
    terms["reserved_for"] = "another job" if terms.get("reserved_for") and not terms.get("reserved") else None


def decision_json(job: Job) -> dict[str, Any] | None:
    """How the latest attempt was dispatched; None before the first."""
    if job.dispatched_at is None:
        return None
    same = (
        "attempt",
        "dispatched_at",
        "pool",
        "resource",
        "capacity_type",
        "borrowed",
        "placement",
        "plan_hash",
    )
    return {
        **{name: getattr(job, name) for name in same},
        "usd_per_hour": None if job.rate_micro is None else usd(job.rate_micro),
        "hold_usd": None if job.hold_micro is None else usd(job.hold_micro),
        "run_limit_seconds": job.run_limit_s,
    }


def offers_json(job: Job) -> list[dict[str, Any]]:
    return [offer_json(offer) for offer in job.offers]


def allowances_json(
    current: Current,
    budget_usage: Mapping[str, BudgetUsage],
    tenant: str,
    project: str | None = None,
    overrun: bool = False,
) -> list[dict[str, Any]]:
    """Budgets of a tenant and its projects, or of one project, in the present period."""
    allowances = current.supply.tenants[tenant].budgets
    wanted = allowances if project is None else (tenant, f"{tenant}/{project}")
    listed = []
    for scope in wanted:
        if scope not in allowances:
            continue
        allowance, usage = allowances[scope], budget_usage.get(scope, BudgetUsage(0, 0))
        limit = allowance.limit_micro + (allowance.overrun_micro if overrun else 0)
        listed.append(
            {
                "scope": scope,
                "period": allowance.period,
                "limit_usd": usd(limit),
                "spent_usd": usd(usage.spent_micro),
                "held_usd": usd(usage.held_micro),
                "left_usd": usd(limit - usage.spent_micro - usage.held_micro),
            }
        )
    return listed


def budgets_json(
    current: Current, budget_usage: Mapping[str, BudgetUsage], job: Job, estimate_micro: int
) -> list[dict[str, Any]]:
    """Each budget that the job counts against, and whether it has room for `estimate_micro`."""
    overrun = job.level is Level.CRITICAL
    found = allowances_json(current, budget_usage, job.tenant, job.project or "", overrun)
    return [{**budget, "allows": usd(estimate_micro) <= budget["left_usd"]} for budget in found]
