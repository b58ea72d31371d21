"""Calls the `callback_url` of jobs that have ended, at least once, until it is taken or given up.

The same targets are allowed as for HTTP jobs. A callback that is not taken delays no other job's. It must not
change jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from gpupool.queue.records import MICRO, Job
from gpupool.queue.roles.http_job import HttpJobs
from gpupool.queue.roles.leader import LeaderRole, utc_now
from gpupool.queue.store import callbacks, jobs
from gpupool.queue.store.callbacks import Callback

log = structlog.get_logger()

SECONDS = 10.0
"""The receiver has so long to answer."""
FIRST_PAUSE = timedelta(seconds=10)
LONGEST_PAUSE = timedelta(hours=1)
MOST_TRIES = 12
"""Over some three and a half hours."""


@dataclass
class Callbacks(LeaderRole):
    """Makes callbacks while it leads its role."""

    http: HttpJobs
    now: Callable[[], datetime] = utc_now

    async def _act(self, _: int) -> bool:
        found = await callbacks.due(self.db, self.now())
        await asyncio.gather(*(self._call(callback) for callback in found))
        return False

    async def _call(self, callback: Callback) -> None:
        job = await jobs.job(self.db, callback.job)
        error = None if job is None else await self.http.notify(callback.url, body(job), SECONDS)
        if error is None:
            await callbacks.done(self.db, callback.job)
        elif callback.tries + 1 >= MOST_TRIES:
            log.error("callback.given_up", job=callback.job, error=error)
            await callbacks.done(self.db, callback.job)
        else:
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**callback.tries)
            log.warning("callback.failed", job=callback.job, error=error, again_in=str(pause))
            await callbacks.again(self.db, callback.job, self.now() + pause)


def body(job: Job) -> dict[str, object]:
    """What the receiver gets."""
    return {
        "id": job.id,
        "state": job.state.value,
        "tenant": job.tenant,
        "project_id": job.project,
        "job_name": job.name,
        "attempt": job.attempt,
        "exit_code": job.exit_code,
        "reason": job.reason,
        "cost_usd": job.cost_micro / MICRO,
        "finished_at": job.finished_at.isoformat() if job.finished_at else None,
    }
