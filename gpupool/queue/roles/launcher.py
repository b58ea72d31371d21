"""The launcher: makes decided container jobs Jobs of a cluster, and records what becomes of them.

One process leads. What it knows is in the database (which attempts are the cluster's) and in the cluster
(Jobs, pods), so that another one goes on where it stops. Each attempt is looked at when something of it
changed, and again from time to time. This module must not decide which job runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from gpupool.cluster.work_queue import WorkQueue
from gpupool.findings import GpupoolError
from gpupool.plan.pods import RECORDED_FINALIZER
from gpupool.queue.kubernetes import job_manifest, observe, warnings
from gpupool.queue.kubernetes.cluster import Cluster, Refused
from gpupool.queue.kubernetes.foreign import foreign_pods
from gpupool.queue.kubernetes.mirror import Key, Mirror
from gpupool.queue.kubernetes.observe import Ended, Pending, Running
from gpupool.queue.kubernetes.output import Output
from gpupool.queue.measures import Measures
from gpupool.queue.plan_source import Current
from gpupool.queue.records import Job, Outcome, Reason, Waiting
from gpupool.queue.roles.executor import BACKOFF_S
from gpupool.queue.roles.leader import Leadership
from gpupool.queue.store import attempts, launches
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import StoreError

log = structlog.get_logger()

AT_ONCE = 64
"""Attempts that are worked on at one time."""
TAKEN = 256
"""Attempts taken from the queue at one time."""
AGAIN_S = 30.0
"""An attempt of which nothing changes is looked at again after so long."""
REFUSED_S = (5.0, 60.0)
"""The pause before a Job that the cluster refuses is created again, doubled each time; the longest one."""
FOREGROUND = "foregroundDeletion"
"""The finalizer of an object that waits for its dependents' deletion (Kubernetes, Garbage Collection)."""
USUAL_S = 3.0
"""A pod that starts sooner is not shown as waiting; others are explained by the cluster's events."""


@dataclass(slots=True)
class Attempt:
    """What this process knows of an attempt beside the cluster and the database."""

    job: Job
    seen: bool = False
    """Whether its Job has been seen, so that it is never created twice."""
    served: bool = False
    """Whether its Service is there, if it needs one."""
    running: bool = False
    asked: Outcome | None = None
    """How it ends, once it is asked to stop."""
    stopped: bool = False
    due: datetime | None = None
    """When to look at it again whatever happens."""
    begun: tuple[bool, datetime] | None = None
    """Whether its pods have nodes, and since when this process has seen that: the clock of the API server may
    be another."""
    refusals: int = 0
    waiting: Waiting | None = None
    """As last written."""


class Launcher:
    """Launches and watches while it leads. `current` gives the present Plan."""

    def __init__(
        self,
        db: Database,
        leadership: Leadership,
        cluster: Cluster,
        current: Callable[[], Current],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        ended: Callable[[], None] = lambda: None,
        measures: Measures | None = None,
    ) -> None:
        self._db = db
        self._leadership = leadership
        self._cluster = cluster
        self._current = current
        self._now = now
        self._ended = ended
        self._measures = measures
        self.mirror = Mirror(cluster.reader, self._enqueue)
        self._following: asyncio.Task[None] | None = None
        self._output = Output(db, cluster, lambda: current().plan.queue.logs_keep_mib * 2**20)
        self._warnings = warnings.Warnings(cluster.warnings, now)
        self._epoch: int | None = None
        self._attempts: dict[Key, Attempt] = {}
        self._missed: set[Key] = set()
        """What changed while the lead was in doubt."""
        self._work = WorkQueue[Key](self._look_after, self._failed, AT_ONCE)
        self._created: list[tuple[str, int, str]] = []

    async def run(self, wake: asyncio.Event, interval_s: float = 1.0) -> None:
        """Steps until cancelled. What runs on the cluster goes on without this process."""
        try:
            await self._leadership.run(self.step, wake, interval_s)
        finally:
            await self.close()

    async def step(self) -> bool:
        """Take up what is new, what is to stop and what is due; whether there may be more. A leader's first
        step ends when it has read the cluster: the process is not ready before."""
        more = await self._leadership.act(self._act)
        while self._leadership.epoch is not None and not self.mirror.synced.is_set():
            more = await self._leadership.act(self._act)
        if self._leadership.epoch is None and self._epoch is not None:
            await self.close()
        return more

    async def close(self) -> None:
        """Forget everything: another process may lead now."""
        following, self._following, self._epoch = self._following, None, None
        self._output.close()
        self._warnings.close()
        await self._work.close()
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        self._attempts, self._missed = {}, set()
        self.mirror = Mirror(self._cluster.reader, self._enqueue)

    async def idle(self) -> None:
        """Until nothing is worked on: for tests."""
        await self._work.idle()

    async def _act(self, epoch: int) -> bool:
        if self._following is None:
            self._following = asyncio.create_task(self.mirror.run())
        if self._following.done():
            ended = self._following
            await self.close()
            ended.result()  # raises what ended it
        if not self.mirror.synced.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.mirror.synced.wait(), self._leadership.ttl_s / 3)
            return self.mirror.synced.is_set()
        if epoch != self._epoch:
            self._attempts = {
                (job.id, job.attempt): Attempt(
                    job,
                    running=job.started_at is not None,
                    asked=_asked(job.cancel_requested, job.preempt_reason),
                    waiting=job.waiting,
                )
                for job in await launches.held(self._db)
            }
            self._epoch = epoch
            for key in {*self._attempts, *self.mirror.jobs, *self.mirror.pods}:
                self._enqueue(key)
        try:
            taken = await launches.take(self._db, epoch, TAKEN)
        except StoreError:
            self._epoch = None  # what was taken nevertheless is found when everything is read again
            raise
        for job in taken:
            self._attempts[job.id, job.attempt] = Attempt(job)
            self._enqueue((job.id, job.attempt))
        for one in await launches.asked(self._db) if self._attempts else ():
            attempt = self._attempts.get((one.job, one.attempt))
            if attempt is not None and attempt.asked is None:
                attempt.asked = _asked(one.cancelled, one.preempted)
                self._enqueue((one.job, one.attempt))
        missed, self._missed = self._missed, set()
        now = self._now()
        due = {key for key, attempt in self._attempts.items() if attempt.due and attempt.due <= now}
        for key in missed | due:
            self._enqueue(key)
        if self.mirror.foreign_changed:
            present = self._current()
            pods, nodes = self.mirror.foreign.values(), self.mirror.nodes
            found = foreign_pods(pods, nodes, present.plan, present.supply)
            self.mirror.foreign_changed = False
            try:
                await launches.replace_foreign(self._db, epoch, found)
            except StoreError:
                self.mirror.foreign_changed = True
                raise
            self._ended()
        return len(taken) == TAKEN

    def _enqueue(self, key: Key) -> None:
        """Look at an attempt, if this process leads; once the lead is certain again, if it is in doubt."""
        if self._epoch is None:
            return
        if self._leadership.epoch != self._epoch:
            self._missed.add(key)
            return
        self._work.add(key)

    def _failed(self, key: Key, error: Exception) -> None:
        """Look at it again in 2 s."""
        expected = isinstance(error, GpupoolError | StoreError)
        said = {"job": key[0], "attempt": key[1], "error": str(error)}
        if expected:
            log.warning("launcher.again", **said)
        else:
            log.error("launcher.failed", **said, exc_info=error)
        attempt = self._attempts.get(key)
        if attempt is not None:
            attempt.due = self._now() + timedelta(seconds=2)
        else:
            asyncio.get_running_loop().call_later(2, self._enqueue, key)

    async def _look_after(self, key: Key) -> None:
        if self._leadership.epoch is None:  # it may have waited for its turn for long
            self._missed.add(key)
            return
        attempt, job = self._attempts.get(key), self.mirror.jobs.get(key)
        if attempt is None:
            stray = any(map(_held, (*self.mirror.pods_of(key), *([job] if job else []))))
            # A process that no longer leads without knowing it must not take the new leader's for strays.
            if stray and not await launches.is_held(self._db, *key):
                await self._discard(key)
            self.mirror.forget(key)
            return
        attempt.due = self._now() + timedelta(seconds=AGAIN_S)
        pods = self.mirror.pods_of(key)
        if job is None and not pods:
            gone = attempt.seen or attempt.running
            if not gone and attempt.asked is None:
                await self._create(key, attempt)
            elif not await self._is_behind(key, attempt):
                await self._end(key, attempt, Ended(_lost(attempt), None, self._now(), None))
            return
        attempt.seen = True
        found = observe.view(job or observe.GONE, pods, self.mirror.nodes, self._now())
        if isinstance(found, Ended):
            if pods or not await self._is_behind(key, attempt):
                await self._end(key, attempt, found)
            return
        if job is not None and not attempt.running and not attempt.served:
            await self._serve(attempt, job)
        if isinstance(found, Running):
            await self._running(key, attempt, found)
        else:
            await self._pending(key, attempt, found)
        asked = attempt.asked
        ends = asked is not None or (job is not None and "deletionTimestamp" in job["metadata"])
        if job is not None and ends and (not attempt.stopped or _overlooked(job, pods)):
            verdict = asked if asked is not None and asked.kind in ("failed", "timeout") else None
            await self._cluster.stop(job, observe.verdict_text(verdict) if verdict else None)
            attempt.stopped = True

    async def _is_behind(self, key: Key, attempt: Attempt) -> bool:
        """Asked before an attempt ends because something of it is not there: the watch of pods may be behind
        that of Jobs, and an attempt whose pod still runs has not ended."""
        behind = await self.mirror.is_behind(key)
        if behind:
            attempt.due = self._now() + timedelta(seconds=2)
        return behind

    async def _create(self, key: Key, attempt: Attempt) -> None:
        job, plan = attempt.job, self._current().plan
        tenant = next((one for one in plan.tenants if one.name == job.tenant), None)
        if tenant is None or all(pool.name != job.pool for pool in plan.pools):
            said = Outcome("preempted", f"the environment file has no {job.pool} for {job.tenant} any longer")
            await self._end(key, attempt, Ended(said, None, self._now(), None))
            return
        avoid = await launches.failed_nodes(self._db, job.id) if job.attempt > 1 else []
        if self._leadership.epoch is None:  # another process may have launched, and ended, it meanwhile
            self._missed.add(key)
            return
        try:
            created = await self._cluster.create(job_manifest.manifest(job, plan, tenant, avoid))
        except Refused as error:
            await self._refused(key, attempt, error)
            return
        attempt.seen, attempt.refusals = True, 0
        self.mirror.jobs.setdefault(key, created)
        if not self._created:
            asyncio.get_running_loop().call_later(0.05, self._note_created)
        self._created.append((*key, created["metadata"]["name"]))

    async def _serve(self, attempt: Attempt, job: job_manifest.Object) -> None:
        """Create the Service of a Job of several nodes. Not with the Job: its creator may have died since."""
        service = job_manifest.service(job)
        if service is not None and "deletionTimestamp" not in job["metadata"]:
            try:
                await self._cluster.create(service)
            except Refused as error:
                said = f"the cluster refuses its Service: {error}"[:500]
                attempt.asked = attempt.asked or Outcome("failed", said, retry=error.passing)
        attempt.served = True

    def _note_created(self) -> None:
        """Several Jobs at once: the times of their creation are for people, and nothing follows from them."""
        given, self._created = self._created, []

        async def write() -> None:
            try:
                await launches.launched(self._db, given, self._now())
            except StoreError as error:
                log.warning("launcher.unrecorded", jobs=len(given), error=str(error))

        self._work.start(write())

    async def _refused(self, key: Key, attempt: Attempt, error: Refused) -> None:
        """A Job that the cluster does not take: shown, and tried again slowly while that may help."""
        now = self._now()
        since = attempt.job.decided_at or now
        limit = timedelta(seconds=self._current().plan.queue.unscheduled_s)
        reason = f"the cluster refuses its Job: {error}"[:500]
        if not error.passing or now - since > limit:
            outcome = Outcome("failed", reason, retry=error.passing)
            await self._end(key, attempt, Ended(outcome, None, now, None))
            return
        attempt.refusals += 1
        pause = min(REFUSED_S[1], REFUSED_S[0] * 2 ** (attempt.refusals - 1))
        attempt.due = now + timedelta(seconds=pause)
        await self._show(key, attempt, Waiting(Reason.REFUSED, reason))

    async def _running(self, key: Key, attempt: Attempt, found: Running) -> None:
        job, now = attempt.job, self._now()
        since = max(job.decided_at or found.since, min(found.since, now))
        if not attempt.running:
            if await attempts.started(self._db, *key, since, found.node, found.node_since) and self._measures:
                self._measures.started(since, job)
            attempt.running = True
            attempt.waiting = None
        self._output.follow(key, self.mirror.pods_of(key))
        await self._show(key, attempt, found.waiting)
        ends = since + timedelta(seconds=job.run_limit_s or job.timeout_s)
        attempt.due = min(attempt.due or ends, ends)
        if attempt.asked is None and now >= ends:
            reason = f"it ran for longer than {job.run_limit_s} s"
            attempt.asked = Outcome("timeout", reason, retry=False)
        elif attempt.asked is None and found.failed is not None:
            attempt.asked = found.failed

    async def _pending(self, key: Key, attempt: Attempt, found: Pending) -> None:
        self._output.follow(key, self.mirror.pods_of(key))  # of several pods the first may run
        now, queue = self._now(), self._current().plan.queue
        if attempt.begun is None or attempt.begun[0] != found.scheduled:
            attempt.begun = (found.scheduled, now)
        since = attempt.begun[1]
        limit = queue.not_started_s if found.scheduled else queue.unscheduled_s
        over = since + timedelta(seconds=limit)
        attempt.due = min(attempt.due or over, over)
        usual = since + timedelta(seconds=USUAL_S)
        waiting = found.waiting
        if now < usual:
            attempt.due = min(attempt.due, usual)
        else:
            if found.about is not None:
                waiting = self._explained(attempt, waiting, found.about, usual)
            await self._show(key, attempt, waiting)
        if attempt.asked is None and (found.hopeless or now >= over):
            after = "" if found.hopeless else f" after {limit} s"
            said = f"not started{after}: {waiting.detail}"[:500]
            attempt.asked = Outcome("failed", said, retry=not found.hopeless)

    def _explained(
        self, attempt: Attempt, waiting: Waiting, about: observe.Object, since: datetime
    ) -> Waiting:
        """With what the cluster's events say of a Job or pod, once they have been read after `since`."""
        now = self._now()
        said = self._warnings.about(about, since)
        again = now + (timedelta(seconds=1) if said is None else warnings.AGAIN)
        attempt.due = min(attempt.due or again, again)
        if not said:
            return waiting
        if waiting.reason is Reason.NODE:
            return Waiting(Reason.NODE, f"no node for its pod: {said}"[:500])
        return Waiting(Reason.REFUSED, f"its pod can't be created: {said}"[:500])

    async def _show(self, key: Key, attempt: Attempt, waiting: Waiting | None) -> None:
        if waiting != attempt.waiting and self._epoch is not None:
            await launches.waits(self._db, self._epoch, *key, waiting)
            attempt.waiting = waiting

    async def _end(self, key: Key, attempt: Attempt, found: Ended) -> None:
        """Record an end, then let the cluster forget it: in this order, so that nothing is lost between."""
        outcome = found.outcome
        if attempt.asked is not None and outcome.kind == "preempted":
            outcome = Outcome(
                attempt.asked.kind, attempt.asked.reason, outcome.exit_code, attempt.asked.retry
            )
        job, now = attempt.job, self._now()
        begin = job.decided_at or now
        if found.started is not None and not attempt.running:
            begin = max(begin, min(found.started, now))
            await attempts.started(self._db, *key, begin, found.node)
        await self._output.finish(key, self.mirror.pods_of(key))
        at = max(begin, found.started or begin, min(found.at, now))
        ended = await attempts.finish(self._db, *key, outcome, at, BACKOFF_S, node=found.node)
        self._attempts.pop(key, None)
        if ended is not None:
            log.info("attempt.ended", job=key[0], attempt=key[1], tenant=job.tenant, outcome=outcome.kind)
        self._ended()
        await self._discard(key)

    async def _discard(self, key: Key) -> None:
        """A Job whose attempt is over: it is stopped if it is not, and our finalizer taken off."""
        job, pods = self.mirror.jobs.get(key), self.mirror.pods_of(key)
        if job is not None and not job.get("status", {}).get("completionTime"):
            found = observe.view(job, pods, self.mirror.nodes, self._now())
            if "deletionTimestamp" not in job["metadata"] and not isinstance(found, Ended):
                await self._cluster.stop(job, None)
        ours = [thing for thing in (*pods, job) if thing is not None and _held(thing)]
        await self._cluster.release(ours)
        self.mirror.forget(key)


def _overlooked(job: job_manifest.Object, pods: Sequence[job_manifest.Object]) -> bool:
    """Whether a Job is deleted and its pods stay, for as long as it has our finalizer: somebody deleted it in
    background, or the garbage collector did not know of the pod yet and found nothing to wait for."""
    metadata = job["metadata"]
    deleted = "deletionTimestamp" in metadata and FOREGROUND not in (metadata.get("finalizers") or ())
    return deleted and any("deletionTimestamp" not in pod["metadata"] for pod in pods)


def _held(thing: job_manifest.Object) -> bool:
    return RECORDED_FINALIZER in (thing["metadata"].get("finalizers") or ())


def _asked(cancelled: bool, preempted: str | None) -> Outcome | None:
    """How an attempt ends that is to stop."""
    if cancelled or preempted is not None:
        return Outcome("cancelled" if cancelled else "preempted", preempted)
    return None


def _lost(attempt: Attempt) -> Outcome:
    return attempt.asked or Outcome("preempted", "its Job was deleted by hand, its finalizer too")
