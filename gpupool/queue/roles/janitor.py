"""The janitor: what no other role returns to: leases that ended, jobs that expired, history, old events.

It must not decide which job runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from gpupool.queue.roles.leader import LeaderRole, Leadership
from gpupool.queue.store import housekeeping
from gpupool.queue.store.database import Database

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Kept:
    """How long things are kept."""

    jobs: timedelta = timedelta(days=1)
    """Ended jobs in the table of present ones; afterwards in the history, for ever."""
    events: timedelta = timedelta(days=7)
    idempotency: timedelta = timedelta(hours=24)
    logs: timedelta = timedelta(days=7)


class Janitor(LeaderRole):
    """Tidies up while it leads its role."""

    def __init__(
        self,
        db: Database,
        leadership: Leadership,
        kept: Callable[[], Kept],
        now: Callable[[], datetime] | None = None,
    ) -> None:
        super().__init__(leadership)
        self._db = db
        self._kept = kept
        self._now = now

    async def _act(self, _: int) -> bool:
        moment, kept = self._now() if self._now else None, self._kept()
        requeued = await housekeeping.expire_leases(self._db, moment)
        now = moment or datetime.now(UTC)
        expired = await housekeeping.expire_queued(self._db, now)
        archived = await housekeeping.archive(self._db, now - kept.jobs)
        await housekeeping.prune(self._db, "events", now - kept.events)
        await housekeeping.prune(self._db, "idempotency", now - kept.idempotency)
        await housekeeping.prune(self._db, "results", now - kept.logs)
        await housekeeping.prune(self._db, "logs", now - kept.logs)
        await housekeeping.prune_lanes(self._db)
        if requeued or expired or archived:
            log.info("janitor.done", requeued=len(requeued), expired=len(expired), archived=archived)
        return False
