"""How far one attempt of a container job has come, and whether it has to end because of that.

What is found is noted for people to read; an attempt that has used up a time limit, can't start, or waits
for what the Plan no longer has is asked to stop (`Attempt.asked`); `attempt_actions` has what follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpupool.environment.plan.model import SPOT_FIRST
from gpupool.queue.domain.current import Current
from gpupool.queue.kubernetes import job_manifest, warnings
from gpupool.queue.kubernetes.cluster import Cluster, ObjectRefused
from gpupool.queue.kubernetes.mirror import Key, Mirror
from gpupool.queue.kubernetes.observe import PendingJob, RunningJob
from gpupool.queue.kubernetes.output import AttemptOutput
from gpupool.queue.kubernetes.pod_ends import Object
from gpupool.queue.records import Job, Outcome, Waiting, WaitReason
from gpupool.queue.roles import plan_changes
from gpupool.queue.roles.attempt import Attempt
from gpupool.queue.roles.attempt_notes import Notes
from gpupool.queue.store import attempts, plans
from gpupool.queue.store.database import Database

REFUSED_S = (5.0, 60.0)
"""The pause before a Job that the cluster refuses is created again, doubled each time; the longest one."""
USUAL_S = 3.0
"""A pod that starts sooner is not shown as waiting; others are explained by the cluster's events."""


@dataclass
class Progress:
    """Of the attempts of one leader. The clocks are those of `Reconciler`."""

    db: Database
    cluster: Cluster
    mirror: Mirror
    current: Callable[[], Current]
    now: Callable[[], datetime]
    clock: Callable[[], datetime]
    notes: Notes
    output: AttemptOutput
    warnings: warnings.Warnings

    async def note(
        self, key: Key, attempt: Attempt, view: PendingJob | RunningJob, job: job_manifest.Object | None
    ) -> None:
        """Note what there is of an attempt that has not ended, and ask it to stop where it has to. `job`: its
        Job, if that is there."""
        refused = None
        if job is not None and not attempt.served:
            refused = await self._serve(attempt, job)
        if isinstance(view, RunningJob):
            await self._running(key, attempt, view, refused)
        else:
            await self._pending(key, attempt, view, refused, job)

    async def _serve(self, attempt: Attempt, job: job_manifest.Object) -> Waiting | None:
        """Create the Service of a Job of several nodes; why the cluster does not take it. Not with the Job:
        its creator may have died since."""
        service = job_manifest.service(job)
        if service is None or "deletionTimestamp" in job["metadata"]:
            attempt.served = True
            return None
        if attempt.service_due is not None and self.clock() < attempt.service_due:
            attempt.look_by(attempt.service_due)
            return attempt.service_refused
        try:
            await self.cluster.create(service)
        except ObjectRefused as error:
            reason = warnings.sentence(f"the cluster refuses its Service: {error}")
            if self.note_refusal(attempt, error):
                attempt.asked = attempt.asked or self._not_started(reason, error.passing)
            attempt.service_refused = Waiting(WaitReason.REFUSED, reason)
            attempt.service_due = self.schedule_retry(attempt)
            return attempt.service_refused
        attempt.served, attempt.service_refused, attempt.refusals, attempt.refused_since = True, None, 0, None
        return None

    def note_refusal(self, attempt: Attempt, error: ObjectRefused) -> bool:
        """Note that the cluster refuses an object of the attempt; whether to give up, because it does not
        help to ask again or that has been tried for long."""
        limit = timedelta(seconds=self.current().plan.queue.unscheduled_s)
        attempt.refused_since = attempt.refused_since or self.clock()
        return not error.passing or self.clock() - attempt.refused_since > limit

    def schedule_retry(self, attempt: Attempt) -> datetime:
        """Count the refusal, and look at the attempt by the time that is returned: when to ask again for what
        was refused."""
        attempt.refusals += 1
        again = self.clock() + timedelta(
            seconds=min(REFUSED_S[1], REFUSED_S[0] * 2 ** (attempt.refusals - 1))
        )
        attempt.look_by(again)
        return again

    async def _running(self, key: Key, attempt: Attempt, view: RunningJob, refused: Waiting | None) -> None:
        job, now = attempt.job, self.clock()
        if attempt.running_since is None:
            attempt.running_since = now - max(timedelta(), self.cluster.now() - view.since)
        if not attempt.running:
            since = max(job.dispatched_at or view.since, min(view.since, self.now()))
            self.notes.started(attempt, self.start_of(key, attempt.job, since, view.node, view.node_since))
        self.output.follow(key, self.mirror.pods_of(key))
        self.notes.waits(attempt, view.waiting or refused)
        limit_s = job.attempt_limit_s
        ends = attempt.running_since + timedelta(seconds=limit_s)
        attempt.look_by(ends)
        if attempt.asked is None and now >= ends:
            reason = f"it ran for longer than {limit_s} s"
            attempt.asked = Outcome("timeout", reason, retry=False)
        elif attempt.asked is None and view.failed is not None:
            attempt.asked = view.failed

    def start_of(
        self, key: Key, job: Job, since: datetime, node: str | None, node_since: datetime | None = None
    ) -> attempts.AttemptStart:
        """That it runs on `node` since then. Where its pool takes spot nodes first, the node's label decides
        what it is charged; without its node it is charged as on demand."""
        labels = self.mirror.nodes.get(node or "", {"metadata": {"labels": {}}})["metadata"]["labels"]
        type = labels.get(job_manifest.CAPACITY_TYPE)
        if job.capacity_type != SPOT_FIRST or type not in ("spot", "on-demand"):
            return attempts.AttemptStart(*key, since, node, node_since)
        pool, rate = self.current().supply.pools.get(job.pool or ""), job.rate_micro or 0
        if type == "spot" and pool is not None and pool.spot_rate_micro and job.resource:
            units = sum(units for _, units in job.placement)
            rate = min(rate, pool.spot_rate_micro.get(job.resource, 0) * units)
        return attempts.AttemptStart(*key, since, node, node_since, type, rate)

    async def wait_for_plan(self, attempt: Attempt, current: Current) -> bool:
        """Wait while the leader decides by another Plan than this process has, which may not have read a
        change yet: note that, and look at the attempt again soon. False where there is nothing to wait for,
        or that has taken for as long as a pod may wait for a node."""
        now = self.clock()
        attempt.plan_awaited_since = attempt.plan_awaited_since or now
        in_force = await plans.in_force(self.db)
        late = now - attempt.plan_awaited_since > timedelta(seconds=current.plan.queue.unscheduled_s)
        if late or in_force is None or in_force.hash == current.hash:
            return False
        attempt.due = now + timedelta(seconds=2)
        detail = f"decided by plan {in_force.hash}, and the launcher has read {current.hash}"
        self.notes.waits(attempt, Waiting(WaitReason.STARTING, detail))
        return True

    async def _pending(
        self,
        key: Key,
        attempt: Attempt,
        view: PendingJob,
        refused: Waiting | None,
        made: job_manifest.Object | None,
    ) -> None:
        """`refused`: why its Service is not there, which its pods need before all else. `made`: its Job."""
        current = self.current()
        if made is not None and await self._stop_if_plan_changed(attempt, view, made, current):
            return
        self.output.follow(key, self.mirror.pods_of(key))  # of several pods the first may run
        if attempt.phase_since is None or attempt.has_nodes is not view.scheduled:
            attempt.has_nodes, attempt.phase_since = view.scheduled, self.clock()
        waiting = self._report_wait(attempt, view, refused, attempt.phase_since)
        self._enforce_start_limit(attempt, view, waiting, attempt.phase_since, current)

    async def _stop_if_plan_changed(
        self, attempt: Attempt, view: PendingJob, made: job_manifest.Object, current: Current
    ) -> bool:
        """Ask an attempt without nodes to stop if it can't go on under the Plan; whether it was asked."""
        if attempt.asked is not None or view.scheduled:
            return False
        why = plan_changes.conflict(attempt, made, current)
        if why is None or await self.wait_for_plan(attempt, current):
            return False
        attempt.asked = Outcome("preempted", why)
        return True

    def _report_wait(
        self, attempt: Attempt, view: PendingJob, refused: Waiting | None, since: datetime
    ) -> Waiting:
        """Note why it does not run, if it has not since long enough; the reason."""
        if refused is not None:
            self.notes.waits(attempt, refused)
            return refused
        usual = since + timedelta(seconds=USUAL_S)
        if self.clock() < usual:
            attempt.look_by(usual)
            return view.waiting
        waiting = view.waiting
        if view.about is not None:
            waiting = self._explained(attempt, waiting, view.about, usual)
        self.notes.waits(attempt, waiting)
        return waiting

    def _enforce_start_limit(
        self, attempt: Attempt, view: PendingJob, waiting: Waiting, since: datetime, current: Current
    ) -> None:
        """Ask it to stop if it can't start, or has not for too long `since` it got its nodes, or waits for
        them."""
        queue = current.plan.queue
        limit_s = queue.not_started_s if view.scheduled else queue.unscheduled_s
        over = since + timedelta(seconds=limit_s)
        attempt.look_by(over)
        if attempt.asked is None and (view.hopeless or self.clock() >= over):
            after = "" if view.hopeless else f" after {limit_s} s"
            said = warnings.sentence(f"not started{after}: {waiting.detail}")
            attempt.asked = self._not_started(said, not view.hopeless)

    def _not_started(self, reason: str, retry: bool) -> Outcome:
        """The platform kept the attempt from starting."""
        return Outcome("failed", reason, retry=retry, platform_retries=self.current().plan.queue.retries)

    def _explained(self, attempt: Attempt, waiting: Waiting, about: Object, since: datetime) -> Waiting:
        """With what the cluster's events say of a Job or pod, once they have been read after `since`."""
        now = self.clock()
        said = self.warnings.about(about, since)
        again = now + (timedelta(seconds=1) if said is None else warnings.AGAIN)
        attempt.look_by(again)
        if not said:
            return waiting
        if waiting.reason is WaitReason.NODE:
            return Waiting(WaitReason.NODE, warnings.sentence(f"{waiting.detail.rstrip('.')}; {said}"))
        return Waiting(WaitReason.REFUSED, warnings.sentence(f"its pod can't be created: {said}"))
