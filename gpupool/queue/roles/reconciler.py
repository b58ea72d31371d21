"""Looks after one attempt of a container job at a time: its Job is created, followed, stopped and recorded.

Each look compares what the cluster has of the attempt with how it should be, and does what is missing; so it
can be cut off anywhere. This module must not decide which attempts there are: `launcher` takes them up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from gpupool.cluster.kube_api import ApiError, UnreachableError
from gpupool.cluster.work_queue import WorkQueue
from gpupool.findings import GpupoolError
from gpupool.queue.kubernetes import job_manifest, observe, warnings
from gpupool.queue.kubernetes.cluster import Cluster, Refused
from gpupool.queue.kubernetes.mirror import Key, Mirror, is_held
from gpupool.queue.kubernetes.observe import Ended, Pending, Running
from gpupool.queue.kubernetes.output import Output
from gpupool.queue.kubernetes.pod_ends import Object, time_of
from gpupool.queue.measures import Measures
from gpupool.queue.plan_source import Current
from gpupool.queue.records import Outcome, Reason, Waiting
from gpupool.queue.roles import plan_changes
from gpupool.queue.roles.attempt import Attempt
from gpupool.queue.roles.executor import BACKOFF_S
from gpupool.queue.roles.notes import Notes
from gpupool.queue.roles.strays import Strays
from gpupool.queue.store import attempts, launches, plans
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import StoreError
from gpupool.queue.store.launches import Launched

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
    an attempt to look at later; `is_sure` tells whether the cluster is the queue's, as of now.

    There are three clocks, and no duration lies between two of them: `now` is for what people read, `clock`
    never jumps and says for how long this process has seen something, and the cluster says what ran for how
    long.
    """

    db: Database
    cluster: Cluster
    mirror: Mirror
    current: Callable[[], Current]
    now: Callable[[], datetime]
    clock: Callable[[], datetime]
    ended: Callable[[], None]
    measures: Measures | None
    epoch: Callable[[], int | None]
    again: Callable[[Key], None]
    is_sure: Callable[[], Awaitable[bool]]
    attempts: dict[Key, Attempt] = field(default_factory=dict)
    """Those that are the cluster's."""

    def __post_init__(self) -> None:
        self.strays = Strays(self.db)
        self.work = WorkQueue[Key](self._reconcile, self._failed, AT_ONCE)
        self._output = Output(self.db, self.cluster, lambda: self.current().plan.queue.logs_keep_mib * 2**20)
        self._warnings = warnings.Warnings(self.cluster.warnings, self.clock)
        self._notes = Notes(self.db, self.clock, self.epoch, self.measures, self.work.start)

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
            attempt.due = self.clock() + timedelta(seconds=2)
            if isinstance(error, ApiError | UnreachableError) and not attempt.running:
                detail = warnings.sentence(f"the cluster does not take what it needs: {error}")
                self._notes.waits(attempt, Waiting(Reason.CLUSTER, detail))
        else:
            asyncio.get_running_loop().call_later(2, self.again, key)

    async def _reconcile(self, key: Key) -> None:
        if self.epoch() is None:  # it may have waited for its turn for long
            self.again(key)
            return
        attempt, job = self.attempts.get(key), self.mirror.jobs.get(key)
        if attempt is None:
            if await self.strays.is_ours(key, [*self.mirror.pods_of(key), *([job] if job else [])]):
                await self._discard(key)
            self.mirror.forget(key)
            return
        attempt.due = self.clock() + timedelta(seconds=AGAIN_S)
        pods = self.mirror.pods_of(key)
        if job is None and not pods:
            gone = attempt.seen or attempt.running
            if not gone and attempt.asked is None:
                await self._create(key, attempt)
            elif not await self._is_behind(key, attempt, evidence=False):
                await self._end(key, attempt, Ended(attempt.lost(), None, None, None))
            return
        attempt.seen = True
        attempt.here = attempt.here or job is not None
        if not attempt.launched:
            self._notes.launched(attempt, self._launched(key, attempt))
        found = observe.view(job or observe.GONE, pods, self.mirror.nodes, self.cluster.now())
        if isinstance(found, Ended):
            if attempt.here and job is None and found.outcome.kind == "preempted":
                found = replace(found, outcome=attempt.lost())
            whole = pods and job is not None and key not in self.mirror.gone
            if whole or not await self._is_behind(key, attempt, evidence=bool(pods)):
                await self._end(key, attempt, found)
            return
        refused = None
        if job is not None and not attempt.served:
            refused = await self._serve(attempt, job)
        if isinstance(found, Running):
            await self._running(key, attempt, found, refused)
        else:
            await self._pending(key, attempt, found, refused, job)
        asked = attempt.asked
        ends = asked is not None or (job is not None and "deletionTimestamp" in job["metadata"])
        if job is not None and ends and (not attempt.stopped or _overlooked(job, pods)):
            verdict = asked if asked is not None and asked.kind in ("failed", "timeout") else None
            await self.cluster.stop(job, observe.verdict_text(verdict) if verdict else None)
            attempt.stopped = True

    async def _is_behind(self, key: Key, attempt: Attempt, *, evidence: bool) -> bool:
        """Asked before an attempt ends because something of it is not there. Without `evidence` of a pod, the
        watch of pods may be behind that of Jobs, and an attempt whose pod still runs has not ended. And at
        this address may be another cluster by now."""
        behind = (not evidence and await self.mirror.is_behind(key)) or not await self.is_sure()
        if behind:
            attempt.due = self.clock() + timedelta(seconds=2)
        return behind

    async def _create(self, key: Key, attempt: Attempt) -> None:
        job, current = attempt.job, self.current()
        why = plan_changes.changed(attempt, None, current)
        if why is not None:
            if not await self._is_early(attempt, current):
                await self._end(key, attempt, Ended(Outcome("preempted", why), None, None, None))
            return
        avoid = await launches.failed_nodes(self.db, job.id) if job.attempt > 1 else []
        if self.epoch() is None:  # another process may have launched, and ended, it meanwhile
            self.again(key)
            return
        try:
            tenant = current.tenants[job.tenant]
            made = job_manifest.manifest(job, current.plan, tenant, avoid, database=self.strays.database)
            created = await self.cluster.create(made)
        except Refused as error:
            await self._refused(key, attempt, error)
            return
        attempt.seen, attempt.here, attempt.refusals, attempt.refused_since = True, True, 0, None
        self.mirror.jobs.setdefault(key, created)
        self._notes.launched(attempt, self._launched(key, attempt))

    def _launched(self, key: Key, attempt: Attempt) -> Launched:
        """Whether this process or another one created it, and however the answer to that was lost."""
        at, job = self.now(), self.mirror.jobs.get(key)
        created = time_of(job["metadata"].get("creationTimestamp")) if job else None
        at = max(attempt.job.decided_at or at, min(created or at, at))
        return Launched(*key, job_manifest.name_of(*key), at)

    async def _serve(self, attempt: Attempt, job: job_manifest.Object) -> Waiting | None:
        """Create the Service of a Job of several nodes; why the cluster does not take it. Not with the Job:
        its creator may have died since."""
        service = job_manifest.service(job)
        if service is None or "deletionTimestamp" in job["metadata"]:
            attempt.served = True
            return None
        if attempt.service_due is not None and self.clock() < attempt.service_due:
            attempt.look_by(attempt.service_due)
            return attempt.refused
        try:
            await self.cluster.create(service)
        except Refused as error:
            reason = warnings.sentence(f"the cluster refuses its Service: {error}")
            if self._gives_up(attempt, error):
                attempt.asked = attempt.asked or self._not_started(reason, error.passing)
            attempt.refused = Waiting(Reason.REFUSED, reason)
            attempt.service_due = self._pause(attempt)
            return attempt.refused
        attempt.served, attempt.refused, attempt.refusals, attempt.refused_since = True, None, 0, None
        return None

    def _gives_up(self, attempt: Attempt, error: Refused) -> bool:
        """Whether it does not help to ask again, or that has been tried for long."""
        limit = timedelta(seconds=self.current().plan.queue.unscheduled_s)
        attempt.refused_since = attempt.refused_since or self.clock()
        return not error.passing or self.clock() - attempt.refused_since > limit

    def _pause(self, attempt: Attempt) -> datetime:
        """When to ask again for what was refused."""
        attempt.refusals += 1
        again = self.clock() + timedelta(
            seconds=min(REFUSED_S[1], REFUSED_S[0] * 2 ** (attempt.refusals - 1))
        )
        attempt.look_by(again)
        return again

    async def _refused(self, key: Key, attempt: Attempt, error: Refused) -> None:
        """A Job that the cluster does not take: shown, and tried again slowly while that may help."""
        reason = warnings.sentence(f"the cluster refuses its Job: {error}")
        if self._gives_up(attempt, error):
            outcome = Outcome("failed", reason, retry=error.passing)
            await self._end(key, attempt, Ended(outcome, None, None, None))
            return
        attempt.due = self._pause(attempt)
        self._notes.waits(attempt, Waiting(Reason.REFUSED, reason))

    async def _running(self, key: Key, attempt: Attempt, found: Running, refused: Waiting | None) -> None:
        job, now = attempt.job, self.clock()
        if attempt.began is None:
            attempt.began = now - max(timedelta(), self.cluster.now() - found.since)
        if not attempt.running:
            since = max(job.decided_at or found.since, min(found.since, self.now()))
            self._notes.started(attempt, attempts.Start(*key, since, found.node, found.node_since))
        self._output.follow(key, self.mirror.pods_of(key))
        self._notes.waits(attempt, found.waiting or refused)
        ends = attempt.began + timedelta(seconds=job.run_limit_s or job.timeout_s)
        attempt.look_by(ends)
        if attempt.asked is None and now >= ends:
            reason = f"it ran for longer than {job.run_limit_s} s"
            attempt.asked = Outcome("timeout", reason, retry=False)
        elif attempt.asked is None and found.failed is not None:
            attempt.asked = found.failed

    async def _is_early(self, attempt: Attempt, current: Current) -> bool:
        """Whether the leader decides by another Plan than this process has, which may not have read a change
        yet. That is shown, and waited for as long as for a node."""
        now = self.clock()
        attempt.early_since = attempt.early_since or now
        in_force = await plans.in_force(self.db)
        late = now - attempt.early_since > timedelta(seconds=current.plan.queue.unscheduled_s)
        if late or in_force is None or in_force.hash == current.hash:
            return False
        attempt.due = now + timedelta(seconds=2)
        detail = f"decided by plan {in_force.hash}, and the launcher has read {current.hash}"
        self._notes.waits(attempt, Waiting(Reason.STARTING, detail))
        return True

    async def _pending(
        self,
        key: Key,
        attempt: Attempt,
        found: Pending,
        refused: Waiting | None,
        made: job_manifest.Object | None,
    ) -> None:
        """`refused`: why its Service is not there, which its pods need before all else. `made`: its Job."""
        current = self.current()
        if attempt.asked is None and not found.scheduled and made is not None:
            why = plan_changes.changed(attempt, made, current)
            if why is not None and not await self._is_early(attempt, current):
                attempt.asked = Outcome("preempted", why)
                return
        self._output.follow(key, self.mirror.pods_of(key))  # of several pods the first may run
        now, queue = self.clock(), self.current().plan.queue
        if attempt.begun is None or attempt.begun[0] != found.scheduled:
            attempt.begun = (found.scheduled, now)
        since = attempt.begun[1]
        limit = queue.not_started_s if found.scheduled else queue.unscheduled_s
        over = since + timedelta(seconds=limit)
        attempt.look_by(over)
        usual = since + timedelta(seconds=USUAL_S)
        waiting = refused or found.waiting
        if refused is not None:
            self._notes.waits(attempt, waiting)
        elif now < usual:
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

    def _explained(self, attempt: Attempt, waiting: Waiting, about: Object, since: datetime) -> Waiting:
        """With what the cluster's events say of a Job or pod, once they have been read after `since`."""
        now = self.clock()
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
        if outcome.kind == "failed" and found.started is None and not attempt.running:
            outcome = replace(outcome, platform_retries=self.current().plan.queue.retries)
        job, now = attempt.job, self.now()
        attempt.over = attempt.over or self.clock()
        ran = found.ran
        if ran is None:  # by what this process saw of it, if anything
            ran = attempt.over - attempt.began if attempt.began is not None else timedelta()
        if attempt.seen and not attempt.launched:
            await launches.launched(self.db, [self._launched(key, attempt)])
            attempt.launched = True
        if found.started is not None and not attempt.running:
            begin = max(job.decided_at or now, min(found.started, now))
            await attempts.started(self.db, *key, begin, found.node)
        await self._output.finish(key, self.mirror.pods_of(key))
        epoch = self.epoch()
        if epoch is None:
            self.again(key)
            return
        ended = await launches.finish(self.db, epoch, *key, outcome, now, BACKOFF_S, found.node, ran)
        self.attempts.pop(key, None)
        if ended is not None:
            log.info("attempt.ended", job=key[0], attempt=key[1], tenant=job.tenant, outcome=outcome.kind)
        self.ended()
        await self._discard(key)

    async def _discard(self, key: Key) -> None:
        """A Job whose attempt is over: it is stopped if it is not, and our finalizer taken off."""
        job, pods = self.mirror.jobs.get(key), self.mirror.pods_of(key)
        if job is not None and not job.get("status", {}).get("completionTime"):
            found = observe.view(job, pods, self.mirror.nodes, self.cluster.now())
            if "deletionTimestamp" not in job["metadata"] and not isinstance(found, Ended):
                await self.cluster.stop(job, None)
        ours = [thing for thing in (*pods, job) if thing is not None and is_held(thing)]
        await self.cluster.release(ours)
        self.mirror.forget(key)


def _overlooked(job: job_manifest.Object, pods: Sequence[job_manifest.Object]) -> bool:
    """Whether a Job is deleted and its pods stay, for as long as it has our finalizer: somebody deleted it in
    background, or the garbage collector did not know of the pod yet and found nothing to wait for."""
    metadata = job["metadata"]
    deleted = "deletionTimestamp" in metadata and FOREGROUND not in (metadata.get("finalizers") or ())
    return deleted and any("deletionTimestamp" not in pod["metadata"] for pod in pods)
