"""The executor in `direct` mode: takes dispatched jobs, runs them here, reports how they ended.

HTTP jobs are sent (`http_job`); the command of a container job runs as a local process with `dev` only
(`local_process`). A lease on each attempt is renewed while it runs; what the database no longer knows as ours
is stopped without a report, and an end that is known is reported until the database has it. For how long an
attempt ran, a clock of this process says that never jumps.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta

import structlog

from gpupool.queue.measures import Measures
from gpupool.queue.records import Job, Outcome
from gpupool.queue.roles.http_job import HttpJobs
from gpupool.queue.roles.leader import utc_now
from gpupool.queue.roles.local_process import run_process
from gpupool.queue.roles.loop import repeat
from gpupool.queue.store import attempts
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import StoreError, Unavailable
from gpupool.queue.store.jobs import HttpAnswer
from gpupool.queue.store.kept_output import KeptOutput

log = structlog.get_logger()

LEASE_S = 15.0
"""Without a renewal for so long the attempt counts as disrupted."""
AT_ONCE = 256
"""Jobs that one executor runs at most."""
TAKEN = 64
"""Jobs taken from the queue at one time."""
INTERVAL_S = 3.0
"""A wake-up tells it of decisions; it looks for itself in case one was lost."""
BACKOFF_S = (5.0, 300.0)
"""The pause before the first retry, and the longest one."""
REPORTS_S = (0.2, 1.0, 3.0, 5.0)
"""Between tries to report an end; the last one again and again."""
CLOSING_S = 10.0
"""What a process that stops has for reports that the database does not take."""
LOST = "lost"
"""Kind of outcome of an attempt that somebody else runs by now: it is never reported."""


@dataclass(slots=True)
class RunningAttempt:
    """An attempt of this executor."""

    job: Job
    task: asyncio.Task[None]
    stop: asyncio.Future[Outcome]
    """How it is to end before its time; done once it is asked to."""
    running_since: float | None = None
    """By `Executor.clock`; None until the database has its start."""
    ran: timedelta | None = None
    """For how long, once it has ended."""

    def ask_to_stop(self, kind: str, reason: str | None = None) -> None:
        """Have it end so. The first reason stays."""
        if not self.stop.done():
            self.stop.set_result(Outcome(kind, reason))


@dataclass
class Executor:
    """Takes up jobs. `name` must be unique to the process. Without `containers` it leaves container jobs to
    the launcher. `ended` is called after each attempt; `log_bytes` gives how much output of one is kept."""

    db: Database
    name: str
    http: HttpJobs
    _: KW_ONLY
    dev: bool = False
    containers: bool = True
    now: Callable[[], datetime] = utc_now
    clock: Callable[[], float] = time.monotonic
    ended: Callable[[], None] = lambda: None
    measures: Measures | None = None
    log_bytes: Callable[[], int] = lambda: 10 * 1024 * 1024
    running: dict[tuple[str, int], RunningAttempt] = field(default_factory=dict, init=False)
    _closes_by: float | None = field(default=None, init=False)

    async def run(self, wake: asyncio.Event) -> None:
        """Take, renew and report until cancelled; then everything is stopped and given back."""
        renewing = asyncio.create_task(repeat("executor.renew", self.renew, LEASE_S / 5, asyncio.Event()))
        try:
            await repeat("executor", self.step, INTERVAL_S, wake)
        finally:
            renewing.cancel()
            await self.close()

    async def step(self) -> bool:
        """Take up what is dispatched; whether there may be more."""
        free = AT_ONCE - len(self.running)
        if free <= 0:
            return False
        limit = min(free, TAKEN)
        taken = await attempts.take(self.db, self.name, limit, LEASE_S, containers=self.containers)
        for job in taken:
            stop = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(self._attempt(job, stop))
            self.running[job.id, job.attempt] = RunningAttempt(job, task, stop)
        return len(taken) == TAKEN

    async def renew(self) -> bool:
        """Renew the leases of what runs; stop what was cancelled, is preempted or is no longer ours."""
        held = dict(self.running)  # `step` may take more while the database answers
        if not held:
            return False
        ran = {key: self._time_run(running).total_seconds() for key, running in held.items()}
        ours = await attempts.heartbeat(self.db, self.name, ran, LEASE_S)
        still = {(claim.job, claim.attempt): claim for claim in ours}
        for key, running in held.items():
            state = still.get(key)
            if state is None:
                running.ask_to_stop(LOST)
            elif state.cancelled:
                running.ask_to_stop("cancelled")
            elif state.preempted:
                running.ask_to_stop("preempted", state.preempted)
        return False

    async def close(self) -> None:
        """Stop everything; attempts are reported as disrupted, so that they run again elsewhere."""
        for running in self.running.values():
            running.ask_to_stop("disrupted", "the executor is stopping")
        self._closes_by = self.clock() + CLOSING_S
        if self.running:
            await asyncio.gather(*(one.task for one in list(self.running.values())), return_exceptions=True)

    def _time_run(self, running: RunningAttempt) -> timedelta:
        """For how long it has run so far, or did."""
        if running.ran is not None or running.running_since is None:
            return running.ran or timedelta()
        return timedelta(seconds=self.clock() - running.running_since)

    async def _attempt(self, job: Job, stop: asyncio.Future[Outcome]) -> None:
        """Run one attempt from start to report. Raises nothing: without a report its lease ends, and the job
        runs again."""
        key = (job.id, job.attempt)
        try:
            now = self.now()
            if await attempts.record_start(self.db, job.id, job.attempt, now):
                if self.measures:
                    self.measures.started(now, job)
                running = self.running[key]
                running.running_since = self.clock()
                outcome, result = await self._outcome(job, stop)
                running.ran = self._time_run(running)
                if outcome.kind != LOST:
                    await self._report(job, outcome, result, running.ran)
        except StoreError as error:
            log.error("attempt.lost", job=job.id, attempt=job.attempt, error=str(error))
        except Exception:
            log.exception("attempt.lost", job=job.id, attempt=job.attempt)
        finally:
            self.running.pop(key, None)
            self.ended()

    async def _outcome(self, job: Job, stop: asyncio.Future[Outcome]) -> tuple[Outcome, HttpAnswer | None]:
        """How the attempt ended; whatever goes wrong here is a failure of the attempt."""
        try:
            if job.is_http:
                return await self.http.send(job, stop)
            if not self.dev:
                reason = "container jobs need Kubernetes; in direct mode their command runs with --dev only"
                return Outcome("failed", reason, retry=False), None
            kept = KeptOutput(self.db, job.id, job.attempt, self.log_bytes)
            return await run_process(job, stop, kept), None
        except Exception as error:
            log.exception("attempt.failed", job=job.id, attempt=job.attempt)
            return Outcome("failed", f"{type(error).__name__}: {error}"), None

    async def _report(self, job: Job, outcome: Outcome, result: HttpAnswer | None, ran: timedelta) -> None:
        """Report until the database has it, or knows the attempt as another's: an end that is not recorded
        would run the job again. Raises the database's error where that does not go away by itself, or this
        process stops."""
        for number in itertools.count():
            try:
                ended = await attempts.finish(
                    self.db, job.id, job.attempt, outcome, self.now(), BACKOFF_S, result, ran=ran
                )
            except Exception as error:
                stops = self._closes_by is not None and self.clock() > self._closes_by
                lasts = not isinstance(error, Unavailable) and number >= len(REPORTS_S)
                if stops or lasts:
                    raise
                log.warning("attempt.unreported", job=job.id, attempt=job.attempt, error=str(error))
                await asyncio.sleep(REPORTS_S[min(number, len(REPORTS_S) - 1)])
                continue
            if ended is not None:
                log.info(
                    "attempt.ended",
                    job=job.id,
                    attempt=job.attempt,
                    tenant=job.tenant,
                    outcome=outcome.kind,
                    state=ended.state.value,
                )
            return
