"""The dispatcher: the one leader that decides. A round reads a snapshot, decides, and claims what it starts,
of the jobs whose offers are of the Plan in force.

Between rounds it keeps the least fair clocks, which a new leader computes again, and what it has read. It
must not run jobs or talk to a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from gpupool.queue.domain.decide import decide
from gpupool.queue.domain.state import Lane, Queued, Snapshot
from gpupool.queue.domain.supply import Supply
from gpupool.queue.measures import Measures
from gpupool.queue.roles.leader import LeaderRole, utc_now
from gpupool.queue.roles.offering import Offering
from gpupool.queue.store import dispatch
from gpupool.queue.store.snapshot import Known, take_snapshot

log = structlog.get_logger()

MOST_HEADS = 1000
"""Jobs that a round reads at first, as far as each lane can still give its first one, ..."""
FIRST_OF_LANE = 64
"""... and of any lane. Where a lane runs dry, the round reads on, ..."""
READ_ON = 4
"""... so many times as much of it."""
LEASE_S = 30.0
"""An executor has so long to take up what was dispatched."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What one round did, for metrics and tests."""

    started: int
    seconds: float
    more: bool
    """Whether it changed anything, so that more may follow: rounds go on until nothing does."""


@dataclass
class Dispatcher(LeaderRole):
    """Decides while it leads. `supply` gives the present supply and the hash of its Plan; `offering` makes
    offers for jobs that have none of that Plan."""

    supply: Callable[[], tuple[Supply, str]]
    now: Callable[[], datetime] = utc_now
    decided: Callable[[], None] = lambda: None
    offering: Offering | None = None
    measures: Measures | None = None
    rests: Callable[[], bool] = lambda: False
    """Whether nothing may be started at present."""
    _known: Known = field(default_factory=Known, init=False)
    _floors: Mapping[tuple[str, str], int] = field(default_factory=dict, init=False)
    _epoch: int | None = field(default=None, init=False)
    _lanes: int = field(default=MOST_HEADS, init=False)
    """Lanes that the last round saw."""

    interval_s = 1.0
    leading_interval_s = 2.0
    """For what only time brings about; what changes wakes it."""

    async def _act(self, epoch: int) -> bool:
        if self.rests():
            return False
        if epoch != self._epoch:
            self._epoch, self._floors, self._known = epoch, {}, Known()
        offered = await self.offering.step(epoch) if self.offering is not None else 0
        if offered:  # what they were made for has changed without another version
            self._known = Known()
        return (await self.round(epoch)).more or offered > 0

    async def round(self, epoch: int) -> Decided:
        """Snapshot, decision, claim. Raises Deposed where another leader has taken over."""
        began = time.perf_counter()
        supply, plan_hash = self.supply()
        now = self.now()
        per_lane = max(1, min(FIRST_OF_LANE, MOST_HEADS // self._lanes))
        per_lane = 1 << (per_lane.bit_length() - 1)  # whenever it changes, all lanes are read again
        depths: dict[Lane, int] = {}
        while True:
            snapshot = await take_snapshot(self.db, now, per_lane, self._known, depths)
            decision = decide(
                replace(snapshot, floors=self._floors, lanes=_fresh(snapshot, plan_hash)), supply
            )
            cut = {
                lane for lane in decision.exhausted if len(snapshot.lanes[lane]) >= depths.get(lane, per_lane)
            }
            if not cut:
                break
            depths |= {lane: depths.get(lane, per_lane) * READ_ON for lane in cut}
        self._lanes = max(1, len(snapshot.lanes))
        waits = {job: why for job, why in decision.waits.items() if why != snapshot.waits.get(job)}
        started: list[str] = []
        if decision.starts or decision.preempts or waits or decision.reservations != snapshot.reservations:
            news = replace(decision, waits=waits)
            started = await dispatch.claim(self.db, epoch, news, plan_hash, LEASE_S, now)
            self._known.waits.update(waits)
        self._floors = decision.floors
        done = Decided(
            len(started),
            time.perf_counter() - began,
            bool(decision.starts or decision.preempts) or decision.reservations != snapshot.reservations,
        )
        if self.measures:
            ids = set(started)
            self.measures.round(now, [job for job in snapshot.queued if job.job in ids], done.seconds)
        if started or decision.preempts:
            self.decided()
            log.info(
                "round.decided",
                started=done.started,
                preempted=len(decision.preempts),
                waiting=len(decision.waits),
                milliseconds=round(done.seconds * 1000, 1),
            )
        return done


def _fresh(snapshot: Snapshot, plan_hash: str) -> dict[Lane, tuple[Queued, ...]]:
    """The jobs that have offers of the Plan, by lane."""
    lanes = {
        lane: tuple(job for job in jobs if job.plan_hash == plan_hash)
        for lane, jobs in snapshot.lanes.items()
    }
    return {lane: jobs for lane, jobs in lanes.items() if jobs}
