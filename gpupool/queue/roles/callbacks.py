"""Calls the `callback_url` of jobs that have ended, at least once, until it is taken or given up.

The same targets are allowed as for HTTP jobs. A receiver that does not answer delays no callback to another
host. It must not change jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from gpupool.queue.domain.reasons import of_end
from gpupool.queue.measures import Measures
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
MOST_AT_ONCE = 64
MAKING = timedelta(minutes=1)
"""A callback has been made by then, or its process was killed and another makes it."""
LOOK_S = 1.0
"""While some receivers take their time, for callbacks to others."""


@dataclass
class Callbacks(LeaderRole):
    """Makes callbacks while it leads its role."""

    http: HttpJobs
    now: Callable[[], datetime] = utc_now
    measures: Measures | None = None

    _calls: dict[asyncio.Task[None], str] = field(default_factory=dict, init=False)
    """Callbacks that are being made -> their host."""

    async def run(self, wake: asyncio.Event) -> None:
        try:
            await super().run(wake)
        finally:
            for call in self._calls:
                call.cancel()
            await asyncio.gather(*self._calls, return_exceptions=True)

    async def _act(self, _: int) -> bool:
        now, free = self.now(), MOST_AT_ONCE - len(self._calls)
        for callback in await callbacks.take(self.db, now, now + MAKING, free, self._calls.values()):
            self._calls[asyncio.create_task(self._call(callback))] = callback.host
        if not self._calls:
            return False
        await asyncio.wait(self._calls, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        calls = [call for call in self._calls if call.done()]
        for call in calls:
            del self._calls[call]
        errors = [error for call in calls if (error := call.exception()) is not None]
        if errors:
            raise errors[0]
        return True

    async def _call(self, callback: Callback) -> None:
        job = await jobs.job(self.db, callback.job)
        failure = None if job is None else await self.http.notify(callback.url, body(job), SECONDS)
        given_up = failure is not None and callback.tries + 1 >= MOST_TRIES
        if self.measures:
            outcome = "taken" if failure is None else "given_up" if given_up else "again"
            self.measures.callbacks.labels(outcome).inc()
        if failure is None:
            await callbacks.done(self.db, callback.job)
        elif given_up:
            log.error("callback.given_up", job=callback.job, error=failure.reason)
            await callbacks.failed(self.db, callback.job, failure.reason, None)
            await callbacks.done(self.db, callback.job)
        else:
            pause = max(
                min(LONGEST_PAUSE, FIRST_PAUSE * 2**callback.tries), timedelta(seconds=failure.pause_s)
            )
            log.warning("callback.failed", job=callback.job, error=failure.reason, again_in=str(pause))
            await callbacks.failed(self.db, callback.job, failure.reason, self.now() + pause)


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
        "reason": of_end(job),
        "cost_usd": job.cost_micro / MICRO,
        "finished_at": job.finished_at.isoformat() if job.finished_at else None,
    }
