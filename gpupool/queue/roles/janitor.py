"""The janitor: what no other role returns to: leases that ended, jobs that expired, history, old events.

It must not decide which job runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
TIDY = timedelta(minutes=1)
"""So often old rows are looked for; at each step while there are as many as one step takes."""
MOST = 5000
"""Rows of a kind that one step deletes; of jobs, a fifth goes to the history."""


@dataclass
class Janitor(LeaderRole):
    """Tidies up while it leads its role. `logs_kept_s`: how long output and answers are kept."""

    logs_kept_s: Callable[[], float]
    now: Callable[[], datetime] | None = None
    _tidied: datetime = field(default=datetime.min.replace(tzinfo=UTC), init=False)

    async def _act(self, _: int) -> bool:
        moment = self.now() if self.now else None
        requeued = await housekeeping.expire_leases(self.db, BACKOFF_S, moment)
        now = moment or datetime.now(UTC)
        expired = await housekeeping.expire_queued(self.db, now)
        archived = 0
        if not self._tidied <= now < self._tidied + TIDY:
            archived, more = await self._tidy(now)
            if not more:
                self._tidied = now
        if requeued or expired or archived:
            log.info("janitor.done", requeued=len(requeued), expired=len(expired), archived=archived)
        return False

    async def _tidy(self, now: datetime) -> tuple[int, bool]:
        """Archive and delete what is old: how many jobs were archived, and whether there may be more."""
        output = now - timedelta(seconds=self.logs_kept_s())
        archived = await housekeeping.archive(self.db, now - JOBS_KEPT, MOST // 5)
        kinds = {"events": now - EVENTS_KEPT, "idempotency": now - IDEMPOTENCY_KEPT, "sessions": now}
        kinds |= {"results": output, "logs": output}
        deleted = [await housekeeping.prune(self.db, what, before, MOST) for what, before in kinds.items()]
        await housekeeping.prune_lanes(self.db)
        return archived, archived == MOST // 5 or MOST in deleted
