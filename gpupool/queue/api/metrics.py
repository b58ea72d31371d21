"""Metrics for Prometheus and the two checks of Kubernetes: /metrics, /healthz, /readyz.

Figures of the whole queue are read when they are asked for; those that roles of this process measure come
from `gpupool.queue.measures`. This module must not keep figures of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from pydantic import BaseModel
from starlette.responses import Response

from gpupool.findings import GpupoolError
from gpupool.queue.api.auth import needs
from gpupool.queue.api.jobs import Present
from gpupool.queue.api.problems import Problem
from gpupool.queue.domain.state import Snapshot
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import MICRO, Level, Principal
from gpupool.queue.store import jobs
from gpupool.queue.store.snapshot import take_snapshot

router = APIRouter(tags=["operation"])
OPEN = ("/healthz", "/readyz")
"""Asked by kubelet, which has no credential."""


class _Figures:
    """The queue's figures at one moment, as prometheus_client collects them."""

    def __init__(self, seen: Snapshot, supply: Supply, depth: dict[tuple[str, int], int]) -> None:
        self._seen, self._supply, self._depth = seen, supply, depth

    def collect(self) -> Iterable[Metric]:
        queued = GaugeMetricFamily("gpupool_queue_jobs_queued", "Queued jobs.", labels=["tenant", "priority"])
        for (tenant, level), count in sorted(self._depth.items()):
            queued.add_metric([tenant, Level(level).name.lower()], count)
        yield queued
        yield from self._held()
        yield from self._money()

    def _held(self) -> Iterator[Metric]:
        by_tenant: dict[tuple[str, str], int] = {}
        by_pool: dict[str, dict[str, int]] = {name: {} for name in self._supply.pools}
        for job in self._seen.held:
            by_tenant[job.pool, job.tenant] = by_tenant.get((job.pool, job.tenant), 0) + job.gpu_micro
            types = by_pool.setdefault(job.pool, {})
            types[job.capacity_type] = types.get(job.capacity_type, 0) + job.gpu_micro
        held = GaugeMetricFamily("gpupool_queue_gpus_held", "GPUs held by jobs.", labels=["pool", "tenant"])
        share = GaugeMetricFamily(
            "gpupool_queue_tenant_share", "Share of a pool's held GPUs.", labels=["pool", "tenant"]
        )
        for (pool, tenant), micro in sorted(by_tenant.items()):
            held.add_metric([pool, tenant], micro / MICRO)
            share.add_metric([pool, tenant], micro / max(1, sum(by_pool[pool].values())))
        spot = GaugeMetricFamily(
            "gpupool_queue_spot_share", "Share of a pool's held GPUs that is on spot nodes.", labels=["pool"]
        )
        for pool, types in sorted(by_pool.items()):
            spot.add_metric([pool], types.get("spot", 0) / max(1, sum(types.values())))
        yield from (held, share, spot)

    def _money(self) -> Iterator[Metric]:
        spent = GaugeMetricFamily(
            "gpupool_queue_spent_usd", "Spent in the present period.", labels=["tenant", "project"]
        )
        reserved = GaugeMetricFamily(
            "gpupool_queue_held_usd", "Held for running jobs.", labels=["tenant", "project"]
        )
        for scope, account in sorted(self._seen.accounts.items()):
            tenant, _, project = scope.partition("/")
            spent.add_metric([tenant, project], account.spent_micro / MICRO)
            reserved.add_metric([tenant, project], account.held_micro / MICRO)
        yield from (spent, reserved)


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Metrics."}},
)
async def metrics(
    context: Present, request: Request, _caller: Annotated[Principal, Depends(needs("metrics:read"))]
) -> Response:
    """Figures of all tenants, for Prometheus: a key with the scope metrics:read."""
    seen = await take_snapshot(context.db, context.clock(), per_lane=0)
    figures = CollectorRegistry(auto_describe=False)
    figures.register(_Figures(seen, context.current().supply, await jobs.depth(context.db)))
    own = generate_latest(request.app.state.registry)
    return Response(own + generate_latest(figures), headers={"Content-Type": CONTENT_TYPE_LATEST})


class CheckBody(BaseModel):
    ready: bool


@router.get("/healthz", operation_id="healthz", response_model=CheckBody)
async def healthz() -> dict[str, bool]:
    """Whether the process answers."""
    return {"ready": True}


@router.get("/readyz", operation_id="readyz", response_model=CheckBody)
async def readyz(context: Present, request: Request) -> dict[str, bool]:
    """Whether the process can work: there is a Plan, a database with today's tables, and its roles get on."""
    try:
        context.plan()
    except GpupoolError as error:
        raise Problem("unavailable", f"no environment file is loaded: {error}") from None
    await jobs.depth(context.db)
    if late := request.app.state.late():
        raise Problem("unavailable", f"no recent step of {', '.join(late)} has succeeded; the log says why")
    return {"ready": True}
