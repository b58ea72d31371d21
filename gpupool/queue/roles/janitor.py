"""The janitor: what no other role returns to: leases that ended, jobs that expired, history, old events.

It must not decide which job runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from gpupool.queue.roles.leader import LeaderRole
from gpupool.queue.store import housekeeping

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Kept:
    """How long things are kept."""

    jobs: timedelta = timedelta(days=1)
    """Ended jobs in the table of present ones; afterwards in the history, for ever."""
    events: timedelta = timedelta(days=7)
    idempotency: timedelta = timedelta(hours=24)
    logs: timedelta = timedelta(days=7)


@dataclass
class Janitor(LeaderRole):
    """Tidies up while it leads its role."""

    kept: Callable[[], Kept]
    now: Callable[[], datetime] | None = None

    async def _act(self, _: int) -> bool:
        moment, kept = self.now() if self.now else None, self.kept()
        requeued = await housekeeping.expire_leases(self.db, moment)
        now = moment or datetime.now(UTC)
        expired = await housekeeping.expire_queued(self.db, now)
        archived = await housekeeping.archive(self.db, now - kept.jobs)
        await housekeeping.prune(self.db, "events", now - kept.events)
        await housekeeping.prune(self.db, "idempotency", now - kept.idempotency)
        await housekeeping.prune(self.db, "results", now - kept.logs)
        await housekeeping.prune(self.db, "logs", now - kept.logs)
        await housekeeping.prune_lanes(self.db)
        if requeued or expired or archived:
            log.info("janitor.done", requeued=len(requeued), expired=len(expired), archived=archived)
        return False
