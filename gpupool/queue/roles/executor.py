"""The executor in `direct` mode: takes dispatched jobs, runs them here, reports how they ended.

HTTP jobs are sent (`http_job`); the command of a container job runs as a local process with `dev` only
(`local_process`). A lease on each attempt is renewed while it runs; what the database no longer knows as ours
is stopped without a report. This module must not decide which job runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime

import structlog

from gpupool.queue.measures import Measures
from gpupool.queue.records import Job, Outcome
from gpupool.queue.roles.http_job import HttpJobs
from gpupool.queue.roles.leader import utc_now
from gpupool.queue.roles.local_process import run_process
from gpupool.queue.roles.loop import repeat
from gpupool.queue.store import attempts
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import StoreError
from gpupool.queue.store.jobs import Result

log = structlog.get_logger()

LEASE_S = 15.0
"""Without a renewal for so long the attempt counts as disrupted."""
AT_ONCE = 256
"""Jobs that one executor runs at most."""
INTERVAL_S = 3.0
"""A wake-up tells it of decisions; it looks for itself in case one was lost."""
BACKOFF_S = (5.0, 300.0)
"""The pause before the first retry, and the longest one."""


@dataclass(slots=True)
class Running:
    """An attempt of this executor."""

    job: Job
    task: asyncio.Task[None]
    stop: asyncio.Future[Outcome]
    """How it is to end before its time; with `lost` somebody else runs it, and nothing is reported."""
    logged: int = 0
    """Bytes of output so far."""

    def ask(self, kind: str, reason: str | None = None) -> None:
        """It is to stop. The first reason stays."""
        if not self.stop.done():
            self.stop.set_result(Outcome(kind, reason))


@dataclass
class Executor:
    """Takes up jobs. `name` must be unique to the process. Without `containers` it leaves container jobs to
    the launcher."""

    db: Database
    name: str
    http: HttpJobs
    _: KW_ONLY
    dev: bool = False
    containers: bool = True
    now: Callable[[], datetime] = utc_now
    ended: Callable[[], None] = lambda: None
    measures: Measures | None = None
    log_bytes: Callable[[], int] = lambda: 10 * 1024 * 1024
    running: dict[tuple[str, int], Running] = field(default_factory=dict, init=False)

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
        taken = await attempts.take(self.db, self.name, min(free, 64), LEASE_S, containers=self.containers)
        for job in taken:
            stop = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(self._attempt(job, stop))
            self.running[job.id, job.attempt] = Running(job, task, stop)
        return len(taken) == 64

    async def renew(self) -> bool:
        """Renew the leases of what runs; stop what was cancelled, is preempted or is no longer ours."""
        held = dict(self.running)  # `step` may take more while the database answers
        if not held:
            return False
        ours = await attempts.heartbeat(self.db, self.name, list(held), LEASE_S)
        still = {(one.job, one.attempt): one for one in ours}
        for key, running in held.items():
            state = still.get(key)
            if state is None:
                running.ask("lost")
            elif state.cancelled:
                running.ask("cancelled")
            elif state.preempted:
                running.ask("preempted", state.preempted)
        return False

    async def close(self) -> None:
        """Stop everything; attempts are reported as disrupted, so that they run again elsewhere."""
        for running in self.running.values():
            running.ask("disrupted", "the executor is stopping")
        if self.running:
            await asyncio.gather(*(one.task for one in list(self.running.values())), return_exceptions=True)

    async def _attempt(self, job: Job, stop: asyncio.Future[Outcome]) -> None:
        key = (job.id, job.attempt)
        try:
            now = self.now()
            if await attempts.started(self.db, job.id, job.attempt, now):
                if self.measures:
                    self.measures.started(now, job)
                outcome, result = await self._outcome(job, stop)
                if not (stop.done() and stop.result().kind == "lost"):
                    await self._report(job, outcome, result)
        except StoreError as error:  # the lease will end, and the job run again
            log.error("attempt.lost", job=job.id, attempt=job.attempt, error=str(error))
        except Exception:
            log.exception("attempt.lost", job=job.id, attempt=job.attempt)
        finally:
            self.running.pop(key, None)
            self.ended()

    async def _outcome(self, job: Job, stop: asyncio.Future[Outcome]) -> tuple[Outcome, Result | None]:
        """How the attempt ended; whatever goes wrong here is a failure of the attempt."""
        try:
            if job.is_http:
                return await self.http.send(job, stop)
            if not self.dev:
                reason = "container jobs need Kubernetes; in direct mode their command runs with --dev only"
                return Outcome("failed", reason, retry=False), None
            return await run_process(job, stop, self._log), None
        except Exception as error:
            log.exception("attempt.failed", job=job.id, attempt=job.attempt)
            return Outcome("failed", f"{type(error).__name__}: {error}"), None

    async def _report(self, job: Job, outcome: Outcome, result: Result | None) -> None:
        """Until the database has it: an end that is not recorded would run the job again."""
        for pause in (0.2, 1.0, 3.0, 5.0, None):
            try:
                ended = await attempts.finish(
                    self.db, job.id, job.attempt, outcome, self.now(), BACKOFF_S, result
                )
            except Exception as error:
                if pause is None:
                    raise
                log.warning("attempt.unreported", job=job.id, attempt=job.attempt, error=str(error))
                await asyncio.sleep(pause)
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

    async def _log(self, job: Job, lines: list[str]) -> None:
        """Keep lines while the attempt's log is within its limit; then say once that the rest is not kept."""
        running = self.running[job.id, job.attempt]
        limit = self.log_bytes()
        if running.logged > limit:
            return
        kept = []
        for line in lines:
            running.logged += len(line.encode()) + 1
            if running.logged > limit:
                kept.append(f"[gpupool: the log has {limit} bytes, and what follows is not kept]")
                break
            kept.append(line)
        try:
            await attempts.append_log(self.db, job.id, job.attempt, kept)
        except StoreError as error:  # the process must not wait for a reader
            log.warning("log.lost", job=job.id, attempt=job.attempt, lines=len(kept), error=str(error))
