"""Jobs that hold GPUs and do not use them are warned of, or stopped, as `queue.idle` of the file says.

A job is judged only where Prometheus has figures of all its pods for the whole time: what is not known is not
idle. It must not touch pods: who runs an attempt stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from gpupool.environment.plan.model import Plan
from gpupool.queue.kubernetes.job_manifest import PARTS, name_of
from gpupool.queue.measures import Measures
from gpupool.queue.prometheus import NotKnown
from gpupool.queue.roles import gpu_use
from gpupool.queue.roles.gpu_use import Pod, Use
from gpupool.queue.roles.leader import LeaderRole, utc_now
from gpupool.queue.store import idle
from gpupool.queue.store.idle import IdleAttempt, Watched

log = structlog.get_logger()


@dataclass
class IdleWatch(LeaderRole):
    """Examines running jobs while it leads its role. `alerts`: whether there is a channel for alerts."""

    plan: Callable[[], Plan]
    measures: Measures
    alerts: Callable[[], bool]
    now: Callable[[], datetime] = utc_now

    interval_s = 30.0

    async def _act(self, _: int) -> bool:
        plan, now = self.plan(), self.now()
        queue = plan.queue
        if queue.idle_prometheus is None:
            return False
        before = now - timedelta(seconds=queue.idle_for_s)
        watched = await idle.watched(self.db, before, queue.idle_action)
        if not watched:
            return False
        try:
            uses = await gpu_use.ask(queue.idle_prometheus, queue.idle_for_s)
        except NotKnown as error:
            self.measures.idle_unknown.inc()
            log.warning(
                "idle.unknown", error=str(error), watched=len(watched), effect="no job is called idle"
            )
            return False
        found = list(judged(plan, watched, uses))
        done = await idle.record(self.db, found, queue.idle_action, now, self.alerts()) if found else []
        for job, attempt in done:
            self.measures.idle.labels(queue.idle_action).inc()
            log.info("idle.found", job=job, attempt=attempt, action=queue.idle_action)
        return False


def judged(plan: Plan, watched: list[Watched], uses: dict[Pod, Use]) -> Iterator[IdleAttempt]:
    """The attempts of which all pods are known to be idle."""
    namespaces = {tenant.name: tenant.namespace for tenant in plan.tenants}
    by_job: dict[tuple[str | None, str], list[Use]] = {}
    for (namespace, pod), use in uses.items():
        # Kubernetes adds to the name of a Job: -<suffix>, or -<index>-<suffix>.
        by_job.setdefault((namespace, "-".join(pod.split("-")[:PARTS])), []).append(use)
    for one in watched:
        own = by_job.get((namespaces.get(one.tenant), name_of(one.job, one.attempt)), [])
        if len(own) < one.nodes or not all(use.throughout for use in own):
            continue
        used = max(use.most for use in own)
        if used < (plan.queue.idle_below or 0):
            yield _found(plan, one, used)


def _found(plan: Plan, one: Watched, used: float) -> IdleAttempt:
    time = plan.queue.idle_for_s
    lasted = f"{time} s" if time % 60 else f"{time // 60} min"
    said = f"used at most {used:.1%} of its GPU for {lasted}".replace("%", " %")
    stopped = ", and is stopped" if plan.queue.idle_action == "stop" else ""
    return IdleAttempt(
        one.job,
        one.version,
        used,
        f"idle: {said}",
        f"job {one.name} ({one.job}) of tenant {one.tenant} {said}{stopped}",
    )
