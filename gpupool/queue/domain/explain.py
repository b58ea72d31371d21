"""Why a job waits, term by term, how many go before it, when it may start; and the whole queue in its order.

It asks the very round that decides, so that an explanation can't differ from the decision. A snapshot may
hold no more than the first jobs of long lanes: what must be counted behind these, `ExplainedJob` says, and
its caller counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gpupool.queue.domain.decide import queued_behind
from gpupool.queue.domain.lower_bound import Line, Places, places_for
from gpupool.queue.domain.order import Point, Rival, ahead, rivals
from gpupool.queue.domain.projection import Played, Projection, play
from gpupool.queue.domain.reasons import of_bound
from gpupool.queue.domain.round import Round
from gpupool.queue.domain.state import Lane, Queued, Snapshot
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import MICRO, Level, Waiting, WaitReason

Counts = Mapping[Lane, tuple[int, int]]
"""Lane -> its jobs before each of the two points of a `Rival`."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """One waiting job and what is before it."""

    job: Queued
    ahead: int
    """Jobs that go before it."""
    more_ahead: bool
    """Whether there may be more than that."""
    waiting: Waiting | None
    """None where it would start now, and behind other jobs of its lane."""
    projection: Projection | None
    """When it starts, or before when it does not; None where neither is known."""


@dataclass(frozen=True, slots=True)
class Explanation(Prospect):
    """The same, and why; `waiting` is None only where the job would start now."""

    terms: dict[str, Any]
    """Every term of the order with its numbers."""


@dataclass(frozen=True)
class View:
    """The queue at one moment, as explanations look at it."""

    snapshot: Snapshot
    supply: Supply
    per_lane: int | None = None
    """The snapshot holds at most so many jobs of a lane; None: all."""

    @cached_property
    def opened(self) -> Round:
        return Round.of(self.snapshot, self.supply)

    @cached_property
    def points(self) -> dict[Lane, list[Point]]:
        """Of each lane the places of its jobs, in order."""
        lanes = self.opened.lanes.items()
        return {lane: [(job.enqueued, job.job) for job in jobs] for lane, jobs in lanes}

    @cached_property
    def cut(self) -> frozenset[Lane]:
        """Lanes that may have more jobs than the snapshot holds."""
        lanes = self.points.items()
        return frozenset(lane for lane, jobs in lanes if self.per_lane and len(jobs) >= self.per_lane)

    def holds(self, rival: Rival) -> bool:
        """Whether the snapshot holds all jobs of the lane that go before."""
        return rival.lane not in self.cut or rival.like <= self.points[rival.lane][-1]

    def counts(self, listed: list[Rival]) -> dict[Lane, tuple[int, int]]:
        """How many jobs of each lane go before, of those that the snapshot holds."""
        points = self.points
        return {
            rival.lane: (
                bisect_left(points[rival.lane], rival.sure), bisect_left(points[rival.lane], rival.like)
            )
            for rival in listed
        }  # fmt: skip


@dataclass(frozen=True)
class ExplainedJob:
    """One job that is to be explained, and what must be counted for it."""

    view: View
    job: Queued

    @cached_property
    def first(self) -> list[Queued]:
        """The jobs before it in its own lane, of those that the snapshot holds."""
        lane = self.view.opened.lanes.get((self.job.tenant, self.job.lane), ())
        point = self.job.enqueued, self.job.job
        return [other for other in lane if (other.enqueued, other.job) < point]

    @cached_property
    def state(self) -> Snapshot:
        """The snapshot with the job in its place."""
        snapshot = self.view.snapshot
        name = self.job.tenant, self.job.lane
        lane, first = snapshot.lanes.get(name, ()), self.first
        if any(other.job == self.job.job for other in lane):
            return snapshot
        return replace(snapshot, lanes={**snapshot.lanes, name: (*first, self.job, *lane[len(first) :])})

    @cached_property
    def opened(self) -> Round:
        """With the job: its tenant's clock may begin only then."""
        known = (self.job.tenant, self.job.lane) in self.view.points
        return self.view.opened if known else Round.of(self.state, self.view.supply)

    @cached_property
    def rivals(self) -> list[Rival]:
        """Other lanes of which jobs go before it."""
        return rivals(self.opened, self.job)

    @cached_property
    def places(self) -> Places | None:
        return places_for(self.job, self.state, self.view.supply)

    @property
    def far(self) -> bool:
        """Whether there may be jobs before it in its own lane that the snapshot does not hold."""
        lane = self.job.tenant, self.job.lane
        return lane in self.view.cut and len(self.first) == len(self.view.points[lane])

    @property
    def to_count(self) -> list[Rival]:
        """Of which other lanes jobs are to be counted."""
        return [rival for rival in self.rivals if not self.view.holds(rival)]


def explain(case: ExplainedJob, line: Line | None = None, counts: Counts | None = None) -> Explanation:
    """Explain a job. `line` and `counts`: what the snapshot does not hold, where the case asks for it."""
    view, job, places = case.view, case.job, case.places
    if line is None:
        line = places.line(case.first) if places else Line(len(case.first))
    known = {**view.counts(case.rivals), **(counts or {})}
    before = ahead(case.opened, job, line, case.rivals, known)
    lane = job.tenant, job.lane
    behind = line.jobs > len(case.first)
    cut = view.cut | {lane} if behind else view.cut
    played = play(view.snapshot if behind else case.state, view.supply, {job.job}, cut)
    projection = _projection(job, played, places, line, view.snapshot.now)
    waiting = None
    if not _starts_now(projection, view.snapshot.now):
        others = f"{line.jobs} {queued_behind(job)}" if line.jobs else f"{before} jobs go first"
        waiting = Waiting(WaitReason.QUEUED, others)
        waiting = waiting if behind else played.waits.get(job.job, waiting)
    return Explanation(job, before, False, waiting, projection, _terms(case.opened, job))


def outlook(view: View, most: int, tenant: str | None = None) -> tuple[Prospect, ...]:
    """The first `most` jobs that wait, in order; of one tenant where it is named."""
    opened = view.opened
    heads = sorted(opened.key(lane[0]) for lane in opened.lanes.values())
    ordered = []
    for (owner, _), lane in opened.lanes.items():
        first = opened.key(lane[0])
        for index, job in enumerate(lane if tenant in (None, owner) else ()):
            key = opened.key(job)
            ordered.append((index + bisect_left(heads, key) - (first < key), key, index, job))
    shown = sorted(ordered, key=lambda entry: entry[:2])[:most]
    played = play(view.snapshot, view.supply, {job.job for *_, job in shown}, view.cut)
    prospects = []
    for _, key, index, job in shown:
        others = rivals(opened, job)
        before = ahead(opened, job, Line(index), others, view.counts(others))
        more = not all(view.holds(rival) for rival in others)
        projection = _projection(job, played, None, Line(index), view.snapshot.now)
        prospects.append((before, key, Prospect(job, before, more, played.waits.get(job.job), projection)))
    return tuple(prospect for *_, prospect in sorted(prospects, key=lambda entry: entry[:2]))


def _projection(
    job: Queued, played: Played, places: Places | None, line: Line, now: float
) -> Projection | None:
    if job.job in played.starts:
        return Projection(played.starts[job.job], exact=True)
    if played.until is None:
        return None
    soonest = max(played.until, places.earliest(line) if places else now)
    return Projection(soonest, exact=False) if now < soonest < float("inf") else None


def _starts_now(projection: Projection | None, now: float) -> bool:
    return projection is not None and projection.exact and projection.at <= now


def _terms(opened: Round, job: Queued) -> dict[str, Any]:
    offer, rules = job.offers[0], opened.supply.rules
    rule = opened.rule(job.tenant)
    used = opened.held.used.get((job.tenant, offer.pool, offer.resource), 0)
    guaranteed = rule.guaranteed.get((offer.pool, offer.resource), 0)
    bounds = opened.reservations.bounds(job)
    holders = [(bound, opened.reservations.holders.get(bound)) for bound in reversed(bounds)]
    bound, holder = next(((bound, other) for bound, other in holders if other), ("", None))
    clocks = {tenant: opened.clock(pool, tenant) for pool, tenant in opened.floors if pool == offer.pool}
    return {
        "ordering": rules.ordering,
        "reserved": holder is not None and holder.job == job.job,
        "borrowing": {
            "borrows": opened.borrows(job, offer),
            "granted": rule.grants.get((offer.pool, offer.resource), 0),
            "up_to": rule.up_to.get((offer.pool, offer.resource)),
        },
        "guaranteed_share": {"used": used, "guaranteed": guaranteed, "below": opened.below_guarantee(job)},
        "level": {
            "granted": job.level.name.lower(),
            "aged": Level(opened.aged(job)).name.lower(),
            "aging_seconds": rules.aging_s,
            "waited_seconds": round(opened.now - job.enqueued, 1),
        },
        "fair_clock": {
            "gpu_hours": {tenant: round(clock / MICRO / 3600, 3) for tenant, clock in sorted(clocks.items())},
            "weight": rule.weight,
        },
        "reserved_for": holder.job if holder else None,
        "reserved_within": of_bound(bound) if bound else None,
    }
