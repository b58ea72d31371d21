"""Jobs created directly on the cluster, as the queue would make them: the same manifests, without a queue.

What a Job costs the control plane depends on what is in it (finalizers, affinity, labels), so that a queue is
compared with the creation of exactly what it creates. It measures nothing itself.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import aiohttp

from gpupool.queue.domain.offers import GpuRequest, offers
from gpupool.queue.domain.supply import supply_of
from gpupool.queue.kubernetes.job_manifest import manifest
from gpupool.queue.records import Job, JobState, Level, new_id
from tests.perf.job_cluster import POOL, TENANTS, Cluster, Submit


def directly(cluster: Cluster, labels: dict[str, str] | None = None, *, suspend: bool = False) -> Submit:
    """Creates a Job for each request, with `labels` besides; `suspend` leaves its start to another queue."""
    plan = cluster.plan
    supply = supply_of(plan)

    async def submit(session: aiohttp.ClientSession, number: int) -> list[str]:
        tenant = plan.tenants[number % TENANTS]
        (offer,) = offers(plan, supply, tenant, GpuRequest(POOL))
        now = datetime.now(UTC)
        job = Job(
            id=new_id(), tenant=tenant.name, project=None, user="bench", name="job", priority="normal",
            level=Level.MEDIUM, isolation="exclusive", gpu_count=1, preemptible=True, preempts=False,
            retries=0, timeout_s=3600, budget_limit_micro=None, offers=(offer,),
            request={"container_image": "busybox:1", "container_command": ["true"]}, plan_hash="",
            state=JobState.SCHEDULED, version=1, attempt=1, failures=0, disruptions=0, enqueued_at=now,
            dispatched_at=now, pool=POOL, resource=offer.resource, capacity_type="on-demand",
            placement=((0, 1),), gpu_micro=offer.gpu_micro, rate_micro=offer.rate_micro,
            hold_micro=0, run_limit_s=3600,
        )  # fmt: skip
        body: dict[str, Any] = manifest(job, plan, tenant, database="bench")
        body["metadata"]["labels"] |= labels or {}
        body["spec"]["suspend"] = suspend
        return await cluster.create(session, body)

    return submit
