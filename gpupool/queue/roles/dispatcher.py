"""The dispatcher: the one leader that decides. A round reads a snapshot, decides, and claims what it starts,
of the jobs whose offers are of the Plan in force.

Between rounds it keeps the least fair clocks, which a new leader computes again, and what it has read. It
must not run jobs or talk to a cluster.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from gpupool.queue.domain.decide import decide
from gpupool.queue.domain.supply import Supply
from gpupool.queue.measures import Measures
from gpupool.queue.roles.leader import LeaderRole, utc_now
from gpupool.queue.roles.offering import Offering
from gpupool.queue.store import dispatch
from gpupool.queue.store.snapshot import DEEP, Known, Lane, take_snapshot

log = structlog.get_logger()

MOST_HEADS = 1000
"""Jobs that a round looks at, as far as each lane can still give its first one. What is left goes on in the
next round, at once."""
LEASE_S = 30.0
"""An executor has so long to take up what was dispatched."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What one round did, for metrics and tests."""

    started: int
    seconds: float
    more: bool
    """Whether there may be further jobs that can start: of a long lane, or in place of one that changed."""


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
    _deep: frozenset[Lane] = field(default=frozenset(), init=False)
    """Lanes of which the last round saw too few jobs: all that it saw take back what is lent."""

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
        per_lane = max(1, min(DEEP, MOST_HEADS // self._lanes))
        per_lane = 1 << (per_lane.bit_length() - 1)  # whenever it changes, all lanes are read again
        snapshot = await take_snapshot(self.db, now, per_lane, self._known, self._deep)
        lanes = Counter((job.tenant, job.lane) for job in snapshot.queued)
        self._lanes = max(1, len(lanes))
        fresh = tuple(job for job in snapshot.queued if job.plan_hash == plan_hash)
        decision = decide(replace(snapshot, floors=self._floors, queued=fresh), supply)
        waits = {job: why for job, why in decision.waits.items() if why != snapshot.waits.get(job)}
        started: list[str] = []
        if decision.starts or decision.preempts or waits or decision.reservations != snapshot.reservations:
            news = replace(decision, waits=waits)
            started = await dispatch.claim(self.db, epoch, news, plan_hash, LEASE_S, now)
            self._known.waits.update(waits)
        self._floors = decision.floors
        shallow = frozenset(lane for lane in decision.dry if per_lane <= lanes[lane] < DEEP)
        done = Decided(
            len(started),
            time.perf_counter() - began,
            len(started) < len(decision.starts)
            or (bool(started) and max(lanes.values()) >= per_lane)
            or bool(shallow - self._deep),
        )
        self._deep = shallow | (self._deep & decision.dry)
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
