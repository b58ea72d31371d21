"""The queue as the next round would see it: why a job waits, what a new one would wait for.

The view is at most a second old, and one explanation is worked out at a time, off the event loop: a round
over a long queue takes a while. This module must not decide anything: `gpupool.queue.domain.explain` asks the
round.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from gpupool.queue.api.answers import time_text
from gpupool.queue.api.cache import Cache
from gpupool.queue.api.request_limits import AtOnce
from gpupool.queue.domain.current import Current
from gpupool.queue.domain.explain import ExplainedJob, Explanation, View, explain
from gpupool.queue.domain.lanes import lane_of
from gpupool.queue.domain.projection import Projection
from gpupool.queue.domain.state import Queued, Snapshot
from gpupool.queue.records import Job, Principal
from gpupool.queue.store import order
from gpupool.queue.store.database import Database
from gpupool.queue.store.snapshot import Known, take_snapshot

PER_LANE = 20
"""Jobs of each lane that an explanation looks at."""
FRESH_SECONDS = 1.0
ASKED_EACH, ASKED_ALL = 8, 32
"""Explanations of one caller, and of all, that may wait for each other; each plays many rounds forward."""


class Explanations:
    """Explains jobs, each once for each view of the queue.

    A view is of one snapshot and one supply; it is replaced when either is another, and `_explained` with it.
    `_explained` holds explanations of `_view` alone: what was being worked out for an older view while that
    was replaced is answered and not kept.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._working = asyncio.Lock()
        """Held while one explanation is worked out."""
        self._snapshots = Cache[None, Snapshot](FRESH_SECONDS)
        self._known = Known()
        """What the last snapshot read, so that the next one reads the changes alone."""
        self._asked = AtOnce("explanations", ASKED_EACH, ASKED_ALL)
        self._view: View | None = None
        self._explained = dict[Queued, Explanation]()

    async def snapshot(self, at: datetime) -> Snapshot:
        """The queue as it was at most a second ago."""
        return await self._snapshots.get(
            None, at.timestamp(), lambda: take_snapshot(self._db, at, PER_LANE, self._known)
        )

    async def view(self, current: Current, at: datetime) -> View:
        """The same, as it is explained."""
        snapshot = await self.snapshot(at)
        view = self._view
        if view is None or view.snapshot is not snapshot or view.supply is not current.supply:
            view = self._view = View(snapshot, current.supply, PER_LANE)
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
        """Work an explanation out, unless it is known of this view."""
        explained = self._explained if view is self._view else {}
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
    """Replace other tenants' names by their sorted clock values, and another job's id by "another job"."""
    clocks = terms.get("fair_clock", {}).get("gpu_hours", {})
    if clocks:
        terms["fair_clock"] = {
            **terms["fair_clock"],
            "gpu_hours": {tenant: clocks[tenant]} if tenant in clocks else {},
            "gpu_hours_of_others": sorted(hours for name, hours in clocks.items() if name != tenant),
        }
    held_by_other = terms.get("reserved_for") and not terms.get("reserved")
    terms["reserved_for"] = "another job" if held_by_other else None
