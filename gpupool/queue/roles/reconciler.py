"""Looks after one attempt of a container job at a time: its Job is created, followed, stopped and recorded.

Each look compares what the cluster has of the attempt with how it should be, and does what is missing; so it
can be cut off anywhere. This module must not decide which attempts there are: `launcher` takes them up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from gpupool.cluster.work_queue import WorkQueue
from gpupool.findings import GpupoolError
from gpupool.plan.pods import RECORDED_FINALIZER
from gpupool.queue.kubernetes import job_manifest, observe, warnings
from gpupool.queue.kubernetes.cluster import Cluster, Refused
from gpupool.queue.kubernetes.mirror import Key, Mirror
from gpupool.queue.kubernetes.observe import Ended, Pending, Running
from gpupool.queue.kubernetes.output import Output
from gpupool.queue.measures import Measures
from gpupool.queue.plan_source import Current
from gpupool.queue.records import Outcome, Reason, Waiting
from gpupool.queue.roles.attempt import Attempt
from gpupool.queue.roles.executor import BACKOFF_S
from gpupool.queue.roles.notes import Notes
from gpupool.queue.store import attempts, launches
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import StoreError

log = structlog.get_logger()

AT_ONCE = 64
"""Attempts that are worked on at one time."""
AGAIN_S = 30.0
"""An attempt of which nothing changes is looked at again after so long."""
REFUSED_S = (5.0, 60.0)
"""The pause before a Job that the cluster refuses is created again, doubled each time; the longest one."""
FOREGROUND = "foregroundDeletion"
"""The finalizer of an object that waits for its dependents' deletion (Kubernetes, Garbage Collection)."""
USUAL_S = 3.0
"""A pod that starts sooner is not shown as waiting; others are explained by the cluster's events."""


@dataclass
class Reconciler:
    """The attempts of one leader. `epoch` is None where it is not certain to lead; `again` takes the key of
    an attempt to look at later."""

    db: Database
    cluster: Cluster
    mirror: Mirror
    current: Callable[[], Current]
    now: Callable[[], datetime]
    ended: Callable[[], None]
    measures: Measures | None
    epoch: Callable[[], int | None]
    again: Callable[[Key], None]
    attempts: dict[Key, Attempt] = field(default_factory=dict)
    """Those that are the cluster's."""

    def __post_init__(self) -> None:
        self.work = WorkQueue[Key](self._reconcile, self._failed, AT_ONCE)
        self._output = Output(self.db, self.cluster, lambda: self.current().plan.queue.logs_keep_mib * 2**20)
        self._warnings = warnings.Warnings(self.cluster.warnings, self.now)
        self._notes = Notes(self.db, self.now, self.epoch, self.measures, self.work.start)

    async def close(self) -> None:
        """End what is under way."""
        self._output.close()
        self._warnings.close()
        await self.work.close()

    def _failed(self, key: Key, error: Exception) -> None:
        """Look at it again in 2 s."""
        expected = isinstance(error, GpupoolError | StoreError)
        said = {"job": key[0], "attempt": key[1], "error": str(error)}
        if expected:
            log.warning("launcher.again", **said)
        else:
            log.error("launcher.failed", **said, exc_info=error)
        attempt = self.attempts.get(key)
        if attempt is not None:
            attempt.due = self.now() + timedelta(seconds=2)
        else:
            asyncio.get_running_loop().call_later(2, self.again, key)

    async def _reconcile(self, key: Key) -> None:
        if self.epoch() is None:  # it may have waited for its turn for long
            self.again(key)
            return
        attempt, job = self.attempts.get(key), self.mirror.jobs.get(key)
        if attempt is None:
            stray = any(map(_held, (*self.mirror.pods_of(key), *([job] if job else []))))
            # A process that no longer leads without knowing it must not take the new leader's for strays.
            if stray and not await launches.is_held(self.db, *key):
                await self._discard(key)
            self.mirror.forget(key)
            return
        attempt.due = self.now() + timedelta(seconds=AGAIN_S)
        pods = self.mirror.pods_of(key)
        if job is None and not pods:
            gone = attempt.seen or attempt.running
            if not gone and attempt.asked is None:
                await self._create(key, attempt)
            elif not await self._is_behind(key, attempt):
                await self._end(key, attempt, Ended(attempt.lost(), None, self.now(), None))
            return
        attempt.seen = True
        found = observe.view(job or observe.GONE, pods, self.mirror.nodes, self.now())
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
            await self.cluster.stop(job, observe.verdict_text(verdict) if verdict else None)
            attempt.stopped = True

    async def _is_behind(self, key: Key, attempt: Attempt) -> bool:
        """Asked before an attempt ends because something of it is not there: the watch of pods may be behind
        that of Jobs, and an attempt whose pod still runs has not ended."""
        behind = await self.mirror.is_behind(key)
        if behind:
            attempt.due = self.now() + timedelta(seconds=2)
        return behind

    async def _create(self, key: Key, attempt: Attempt) -> None:
        job, plan = attempt.job, self.current().plan
        tenant = next((one for one in plan.tenants if one.name == job.tenant), None)
        pool = next((one for one in plan.pools if one.name == job.pool), None)
        if tenant is None or pool is None or job.resource not in pool.slices_per_node:
            lost = f"{job.resource} of {job.pool} for {job.tenant}"
            said = Outcome("preempted", f"the environment file no longer has {lost}")
            await self._end(key, attempt, Ended(said, None, self.now(), None))
            return
        avoid = await launches.failed_nodes(self.db, job.id) if job.attempt > 1 else []
        if self.epoch() is None:  # another process may have launched, and ended, it meanwhile
            self.again(key)
            return
        try:
            created = await self.cluster.create(job_manifest.manifest(job, plan, tenant, avoid))
        except Refused as error:
            await self._refused(key, attempt, error)
            return
        attempt.seen, attempt.refusals = True, 0
        self.mirror.jobs.setdefault(key, created)
        self._notes.launched(key, created["metadata"]["name"])

    async def _serve(self, attempt: Attempt, job: job_manifest.Object) -> None:
        """Create the Service of a Job of several nodes. Not with the Job: its creator may have died since."""
        service = job_manifest.service(job)
        if service is not None and "deletionTimestamp" not in job["metadata"]:
            try:
                await self.cluster.create(service)
            except Refused as error:
                said = warnings.sentence(f"the cluster refuses its Service: {error}")
                attempt.asked = attempt.asked or self._not_started(said, error.passing)
        attempt.served = True

    async def _refused(self, key: Key, attempt: Attempt, error: Refused) -> None:
        """A Job that the cluster does not take: shown, and tried again slowly while that may help."""
        now = self.now()
        since = attempt.job.decided_at or now
        limit = timedelta(seconds=self.current().plan.queue.unscheduled_s)
        reason = warnings.sentence(f"the cluster refuses its Job: {error}")
        if not error.passing or now - since > limit:
            outcome = self._not_started(reason, error.passing)
            await self._end(key, attempt, Ended(outcome, None, now, None))
            return
        attempt.refusals += 1
        pause = min(REFUSED_S[1], REFUSED_S[0] * 2 ** (attempt.refusals - 1))
        attempt.due = now + timedelta(seconds=pause)
        self._notes.waits(attempt, Waiting(Reason.REFUSED, reason))

    async def _running(self, key: Key, attempt: Attempt, found: Running) -> None:
        job, now = attempt.job, self.now()
        since = max(job.decided_at or found.since, min(found.since, now))
        if not attempt.running:
            self._notes.started(attempt, attempts.Start(*key, since, found.node, found.node_since))
        self._output.follow(key, self.mirror.pods_of(key))
        self._notes.waits(attempt, found.waiting)
        ends = since + timedelta(seconds=job.run_limit_s or job.timeout_s)
        attempt.look_by(ends)
        if attempt.asked is None and now >= ends:
            reason = f"it ran for longer than {job.run_limit_s} s"
            attempt.asked = Outcome("timeout", reason, retry=False)
        elif attempt.asked is None and found.failed is not None:
            attempt.asked = found.failed

    async def _pending(self, key: Key, attempt: Attempt, found: Pending) -> None:
        self._output.follow(key, self.mirror.pods_of(key))  # of several pods the first may run
        now, queue = self.now(), self.current().plan.queue
        if attempt.begun is None or attempt.begun[0] != found.scheduled:
            attempt.begun = (found.scheduled, now)
        since = attempt.begun[1]
        limit = queue.not_started_s if found.scheduled else queue.unscheduled_s
        over = since + timedelta(seconds=limit)
        attempt.look_by(over)
        usual = since + timedelta(seconds=USUAL_S)
        waiting = found.waiting
        if now < usual:
            attempt.look_by(usual)
        else:
            if found.about is not None:
                waiting = self._explained(attempt, waiting, found.about, usual)
            self._notes.waits(attempt, waiting)
        if attempt.asked is None and (found.hopeless or now >= over):
            after = "" if found.hopeless else f" after {limit} s"
            said = warnings.sentence(f"not started{after}: {waiting.detail}")
            attempt.asked = self._not_started(said, not found.hopeless)

    def _not_started(self, reason: str, retry: bool) -> Outcome:
        """The platform kept the attempt from starting."""
        return Outcome("failed", reason, retry=retry, platform_retries=self.current().plan.queue.retries)

    def _explained(
        self, attempt: Attempt, waiting: Waiting, about: observe.Object, since: datetime
    ) -> Waiting:
        """With what the cluster's events say of a Job or pod, once they have been read after `since`."""
        now = self.now()
        said = self._warnings.about(about, since)
        again = now + (timedelta(seconds=1) if said is None else warnings.AGAIN)
        attempt.look_by(again)
        if not said:
            return waiting
        if waiting.reason is Reason.NODE:
            return Waiting(Reason.NODE, warnings.sentence(f"{waiting.detail.rstrip('.')}; {said}"))
        return Waiting(Reason.REFUSED, warnings.sentence(f"its pod can't be created: {said}"))

    async def _end(self, key: Key, attempt: Attempt, found: Ended) -> None:
        """Record an end, then let the cluster forget it: in this order, so that nothing is lost between."""
        outcome = found.outcome
        if attempt.asked is not None and outcome.kind == "preempted":
            outcome = replace(attempt.asked, exit_code=outcome.exit_code)
        job, now = attempt.job, self.now()
        begin = job.decided_at or now
        if found.started is not None and not attempt.running:
            begin = max(begin, min(found.started, now))
            await attempts.started(self.db, *key, begin, found.node)
        await self._output.finish(key, self.mirror.pods_of(key))
        at = max(begin, found.started or begin, min(found.at, now))
        epoch = self.epoch()
        if epoch is None:
            self.again(key)
            return
        ended = await launches.finish(self.db, epoch, *key, outcome, at, BACKOFF_S, found.node)
        self.attempts.pop(key, None)
        if ended is not None:
            log.info("attempt.ended", job=key[0], attempt=key[1], tenant=job.tenant, outcome=outcome.kind)
        self.ended()
        await self._discard(key)

    async def _discard(self, key: Key) -> None:
        """A Job whose attempt is over: it is stopped if it is not, and our finalizer taken off."""
        job, pods = self.mirror.jobs.get(key), self.mirror.pods_of(key)
        if job is not None and not job.get("status", {}).get("completionTime"):
            found = observe.view(job, pods, self.mirror.nodes, self.now())
            if "deletionTimestamp" not in job["metadata"] and not isinstance(found, Ended):
                await self.cluster.stop(job, None)
        ours = [thing for thing in (*pods, job) if thing is not None and _held(thing)]
        await self.cluster.release(ours)
        self.mirror.forget(key)


def _overlooked(job: job_manifest.Object, pods: Sequence[job_manifest.Object]) -> bool:
    """Whether a Job is deleted and its pods stay, for as long as it has our finalizer: somebody deleted it in
    background, or the garbage collector did not know of the pod yet and found nothing to wait for."""
    metadata = job["metadata"]
    deleted = "deletionTimestamp" in metadata and FOREGROUND not in (metadata.get("finalizers") or ())
    return deleted and any("deletionTimestamp" not in pod["metadata"] for pod in pods)


def _held(thing: job_manifest.Object) -> bool:
    return RECORDED_FINALIZER in (thing["metadata"].get("finalizers") or ())
