"""The janitor: what no other role returns to: leases that ended, jobs that expired, history, old events.

It must not decide which job runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from gpupool.queue.roles.executor import BACKOFF_S
from gpupool.queue.roles.leader import LeaderRole
from gpupool.queue.store import housekeeping

log = structlog.get_logger()


JOBS_KEPT = timedelta(days=1)
"""Ended jobs in the table of present ones; afterwards in the history, for ever."""
EVENTS_KEPT = timedelta(days=7)
IDEMPOTENCY_KEPT = timedelta(hours=24)


@dataclass
class Janitor(LeaderRole):
    """Tidies up while it leads its role. `logs_kept_s`: how long output and answers are kept."""

    logs_kept_s: Callable[[], float]
    now: Callable[[], datetime] | None = None

    async def _act(self, _: int) -> bool:
        moment = self.now() if self.now else None
        requeued = await housekeeping.expire_leases(self.db, BACKOFF_S, moment)
        now = moment or datetime.now(UTC)
        expired = await housekeeping.expire_queued(self.db, now)
        archived = await housekeeping.archive(self.db, now - JOBS_KEPT)
        await housekeeping.prune(self.db, "events", now - EVENTS_KEPT)
        await housekeeping.prune(self.db, "idempotency", now - IDEMPOTENCY_KEPT)
        await housekeeping.prune(self.db, "sessions", now)
        for output in ("results", "logs"):
            await housekeeping.prune(self.db, output, now - timedelta(seconds=self.logs_kept_s()))
        await housekeeping.prune_lanes(self.db)
        if requeued or expired or archived:
            log.info("janitor.done", requeued=len(requeued), expired=len(expired), archived=archived)
        return False
