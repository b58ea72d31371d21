"""Looks after one attempt of a container job at a time: its Job is created, followed, stopped and recorded.

Each look compares what is to become of the attempt with what the cluster has of it, and carries out what
`attempt_actions` has for the two; so it can be cut off anywhere. This module must not decide which attempts
there are: `launcher` takes them up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from gpupool.findings import GpupoolError
from gpupool.live.cluster.kube_api import ApiError, UnreachableError
from gpupool.live.cluster.work_queue import WorkQueue
from gpupool.queue.domain.current import Current
from gpupool.queue.kubernetes import job_manifest, observe, warnings
from gpupool.queue.kubernetes.cluster import Cluster, ObjectRefused
from gpupool.queue.kubernetes.mirror import Key, Mirror, is_held
from gpupool.queue.kubernetes.observe import Ended, PendingJob, RunningJob
from gpupool.queue.kubernetes.output import AttemptOutput
from gpupool.queue.kubernetes.pod_ends import time_of
from gpupool.queue.measures import Measures
from gpupool.queue.records import Outcome, Waiting, WaitReason
from gpupool.queue.roles import plan_changes
from gpupool.queue.roles.attempt import Attempt
from gpupool.queue.roles.attempt_actions import ACTIONS, AttemptAction, desired, observed
from gpupool.queue.roles.attempt_notes import Notes
from gpupool.queue.roles.executor import BACKOFF_S
from gpupool.queue.roles.orphaned_jobs import Orphans
from gpupool.queue.roles.progress import Progress
from gpupool.queue.store import attempts, launches
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import StoreError
from gpupool.queue.store.launches import Launched

log = structlog.get_logger()

AT_ONCE = 64
"""Attempts that are worked on at one time."""
AGAIN_S = 30.0
"""An attempt of which nothing changes is looked at again after so long."""
RETRY_S = 2.0
"""The same of one where something has failed, or the cluster has not shown everything."""


@dataclass
class Reconciler:
    """The attempts of one leader. `epoch` is None where it is not certain to lead; `again` takes the key of
    an attempt to look at later; `is_sure` tells whether the cluster is the queue's, as of now; `ended` is
    called when an attempt has ended, so that its slots are free.

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
        self.orphans = Orphans(self.db)
        self.work = WorkQueue[Key](self._reconcile, self._failed, AT_ONCE)
        self._output = AttemptOutput(
            self.db, self.cluster, lambda: self.current().plan.queue.logs_keep_mib * 2**20
        )
        self._warnings = warnings.Warnings(self.cluster.warnings, self.clock)
        self._notes = Notes(self.db, self.clock, self.epoch, self.measures, self.work.start)
        self._progress = Progress(
            self.db,
            self.cluster,
            self.mirror,
            lambda: self.current(),
            lambda: self.now(),
            lambda: self.clock(),
            self._notes,
            self._output,
            self._warnings,
        )

    async def close(self) -> None:
        """Cancel what is under way."""
        self._output.close()
        self._warnings.close()
        await self.work.close()

    def _failed(self, key: Key, error: Exception) -> None:
        """Log what a look at an attempt has raised, and look again soon. Where the cluster did not take or
        answer something, an attempt that does not run shows that."""
        expected = isinstance(error, GpupoolError | StoreError)
        said = {"job": key[0], "attempt": key[1], "error": str(error)}
        if expected:
            log.warning("launcher.again", **said)
        else:
            log.error("launcher.failed", **said, exc_info=error)
        attempt = self.attempts.get(key)
        if attempt is not None:
            attempt.due = self.clock() + timedelta(seconds=RETRY_S)
            if isinstance(error, ApiError | UnreachableError) and not attempt.running:
                detail = warnings.sentence(f"the cluster does not take what it needs: {error}")
                self._notes.waits(attempt, Waiting(WaitReason.CLUSTER, detail))
        else:
            asyncio.get_running_loop().call_later(RETRY_S, self.again, key)

    async def _reconcile(self, key: Key) -> None:
        if self.epoch() is None:  # it may have waited for its turn for long
            self.again(key)
            return
        attempt, job, pods = self.attempts.get(key), self.mirror.jobs.get(key), self.mirror.pods_of(key)
        if attempt is None and not await self.orphans.should_delete(key, [*pods, *([job] if job else [])]):
            self.mirror.forget(key)
            return
        if attempt is not None:
            attempt.due = self.clock() + timedelta(seconds=AGAIN_S)
            self._note_seen(key, attempt)
        view = None
        if job is not None or pods:
            view = observe.view(job or observe.GONE, pods, self.mirror.nodes, self.cluster.now())
        if attempt is not None and isinstance(view, PendingJob | RunningJob):
            await self._progress.note(key, attempt, view, job)
        action = ACTIONS[desired(attempt), observed(attempt, job, pods, view)]
        if attempt is None or action is AttemptAction.DISCARD:
            await self._discard(key)
        elif action is AttemptAction.CREATE:
            await self._create(key, attempt)
        elif action is AttemptAction.STOP and job is not None:
            await self._stop(attempt, job)
        elif action is AttemptAction.RECORD:
            await self._record(key, attempt, view if isinstance(view, Ended) else None)

    def _note_seen(self, key: Key, attempt: Attempt) -> None:
        """Note what the cluster has of it, if anything."""
        job = self.mirror.jobs.get(key)
        if job is None and not self.mirror.pods_of(key):
            return
        attempt.seen = True
        attempt.here = attempt.here or job is not None
        if not attempt.launched:
            self._notes.launched(attempt, self._launch_of(key, attempt))

    async def _stop(self, attempt: Attempt, job: dict[str, Any]) -> None:
        """Delete its Job, with how the attempt ends where its pods would not say so."""
        asked = attempt.asked
        verdict = asked if asked is not None and asked.kind in ("failed", "timeout") else None
        await self.cluster.stop(job, observe.verdict_text(verdict) if verdict else None)
        attempt.stopped = True

    async def _record(self, key: Key, attempt: Attempt, ended: Ended | None) -> None:
        """End it as its pods say, None where nothing of it is there, unless the mirror is behind."""
        job, pods = self.mirror.jobs.get(key), self.mirror.pods_of(key)
        nothing_is_missing = pods and job is not None and key not in self.mirror.gone
        if ended is None:
            ended = Ended(attempt.lost(), None, None, None)
        elif attempt.here and job is None and ended.outcome.kind == "preempted":
            ended = replace(ended, outcome=attempt.lost())
        if nothing_is_missing or not await self._wait_if_behind(key, attempt, saw_pods=bool(pods)):
            await self._end(key, attempt, ended)

    async def _wait_if_behind(self, key: Key, attempt: Attempt, *, saw_pods: bool) -> bool:
        """Before an attempt ends because something of it is not there: look again soon if the mirror may just
        not show it; whether that is so. Where no pod was seen, the watch of pods may be behind that of Jobs,
        and an attempt whose pod still runs has not ended. And this may be another cluster by now."""
        behind = (not saw_pods and await self.mirror.is_behind(key)) or not await self.is_sure()
        if behind:
            attempt.due = self.clock() + timedelta(seconds=RETRY_S)
        return behind

    async def _create(self, key: Key, attempt: Attempt) -> None:
        job, current = attempt.job, self.current()
        why = plan_changes.conflict(attempt, None, current)
        if why is not None:
            if not await self._progress.wait_for_plan(attempt, current):
                await self._end(key, attempt, Ended(Outcome("preempted", why), None, None, None))
            return
        avoid = await launches.failed_nodes(self.db, job.id) if job.attempt > 1 else []
        if self.epoch() is None:  # another process may have launched, and ended, it meanwhile
            self.again(key)
            return
        try:
            tenant = current.tenants[job.tenant]
            made = job_manifest.manifest(job, current.plan, tenant, avoid, database=self.orphans.database)
            created = await self.cluster.create(made)
        except ObjectRefused as error:
            await self._take_refusal(key, attempt, error)
            return
        attempt.seen, attempt.here, attempt.refusals, attempt.refused_since = True, True, 0, None
        self.mirror.note_created(key, created)
        self._notes.launched(attempt, self._launch_of(key, attempt))

    def _launch_of(self, key: Key, attempt: Attempt) -> Launched:
        """Since when its Job exists, whether this process or another one created it, and however the answer
        to that was lost."""
        at, job = self.now(), self.mirror.jobs.get(key)
        created = time_of(job["metadata"].get("creationTimestamp")) if job else None
        at = max(attempt.job.dispatched_at or at, min(created or at, at))
        return Launched(*key, job_manifest.name_of(*key), at)

    async def _take_refusal(self, key: Key, attempt: Attempt, error: ObjectRefused) -> None:
        """The cluster does not take its Job: show that, and try again slowly while that may help."""
        reason = warnings.sentence(f"the cluster refuses its Job: {error}")
        if self._progress.note_refusal(attempt, error):
            outcome = Outcome("failed", reason, retry=error.passing)
            await self._end(key, attempt, Ended(outcome, None, None, None))
            return
        attempt.due = self._progress.schedule_retry(attempt)
        self._notes.waits(attempt, Waiting(WaitReason.REFUSED, reason))

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
            ran = attempt.over - (attempt.running_since or attempt.over)
        if attempt.seen and not attempt.launched:
            await launches.record_launches(self.db, [self._launch_of(key, attempt)])
            attempt.launched = True
        if found.started is not None and not attempt.running:
            since = max(job.dispatched_at or now, min(found.started, now))
            await attempts.record_starts(self.db, [self._progress.start_of(key, job, since, found.node)])
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
