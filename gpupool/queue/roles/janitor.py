"""The janitor: what no other role returns to: leases that ended, jobs that expired, history, old events.

A lease has ended when it was not renewed for so long while the janitor watched, by a clock that never jumps:
a wall clock that is set, and a database that is away, end no job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog

from gpupool.queue.roles.executor import BACKOFF_S, LEASE_S
from gpupool.queue.roles.leader import LeaderRole, utc_now
from gpupool.queue.store import housekeeping
from gpupool.queue.store.housekeeping import Lease

log = structlog.get_logger()


JOBS_KEPT = timedelta(days=1)
"""Ended jobs in the table of present ones; afterwards in the history, for ever."""
EVENTS_KEPT = timedelta(days=7)
IDEMPOTENCY_KEPT = timedelta(hours=24)
TIDY = timedelta(minutes=1)
"""So often old rows are looked for; at each step while there are as many as one step takes."""
MOST = 5000
"""Rows of a kind that one step deletes; of jobs, a fifth goes to the history."""
UNTAKEN_S = 30.0
"""After so long what no executor takes is decided again."""
MOST_WATCHED_S = 5.0
"""Of the time between two looks so much counts: in a longer one this process stood still, or had no database,
and executors may have been in the same case."""


@dataclass
class Janitor(LeaderRole):
    """Tidies up while it leads its role. `logs_kept_s`: how long output and answers are kept."""

    logs_kept_s: Callable[[], float]
    now: Callable[[], datetime] = utc_now
    clock: Callable[[], float] = time.monotonic
    _watched: dict[Lease, float] = field(default_factory=dict, init=False)
    """For how long each lease has been the same."""
    _looked: float | None = field(default=None, init=False)
    _tidied: datetime = field(default=datetime.min.replace(tzinfo=UTC), init=False)

    async def _act(self, _: int) -> bool:
        now = self.now()
        over = self._unrenewed(await housekeeping.leases(self.db))
        requeued = await housekeeping.expire_leases(self.db, over, BACKOFF_S, now)
        expired = await housekeeping.expire_queued(self.db, now)
        archived = 0
        if not self._tidied <= now < self._tidied + TIDY:
            archived, more = await self._tidy(now)
            if not more:
                self._tidied = now
        if requeued or expired or archived:
            log.info("janitor.done", requeued=len(requeued), expired=len(expired), archived=archived)
        return False

    def _unrenewed(self, leases: Sequence[Lease]) -> list[Lease]:
        at = self.clock()
        passed = min(at - self._looked, MOST_WATCHED_S) if self._looked is not None else 0.0
        self._looked = at
        self._watched = {
            lease: self._watched[lease] + passed if lease in self._watched else 0.0 for lease in leases
        }
        return [
            lease
            for lease, watched in self._watched.items()
            if watched >= (LEASE_S if lease.taken else UNTAKEN_S)
        ]

    async def _tidy(self, now: datetime) -> tuple[int, bool]:
        """Archive and delete what is old: how many jobs were archived, and whether there may be more."""
        output = now - timedelta(seconds=self.logs_kept_s())
        archived = await housekeeping.archive(self.db, now - JOBS_KEPT, MOST // 5)
        kinds = {"events": now - EVENTS_KEPT, "idempotency": now - IDEMPOTENCY_KEPT, "sessions": now}
        kinds |= {"results": output, "logs": output}
        deleted = [await housekeeping.prune(self.db, what, before, MOST) for what, before in kinds.items()]
        await housekeeping.prune_lanes(self.db)
        return archived, archived == MOST // 5 or MOST in deleted
