"""Metrics for Prometheus and the two checks of Kubernetes: /metrics, /healthz, /readyz.

Figures of the whole queue are read when they are asked for, and only where the API is: each process is
scraped. Those that roles of this process measure come from `gpupool.queue.measures`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from pydantic import BaseModel
from starlette.responses import Response

from gpupool import __version__
from gpupool.queue.api.answers import of_text
from gpupool.queue.api.auth import needs
from gpupool.queue.api.figures import figures
from gpupool.queue.api.jobs import Present
from gpupool.queue.api.problems import ApiProblem
from gpupool.queue.plan_source import PlanState
from gpupool.queue.records import Principal
from gpupool.queue.store import jobs, spending
from gpupool.queue.store.snapshot import take_snapshot

router = APIRouter(tags=["operation"])
OPEN = ("/healthz", "/readyz")
"""Asked by kubelet, which has no credential."""


def _plan_figures(state: PlanState, environment: str) -> CollectorRegistry:
    """The Plan of this process, and what is wrong about it."""
    registry = CollectorRegistry(auto_describe=False)
    for name, text, value in (
        ("environment_file_refused", "Whether the file on disk can't be used.", state.refused is not None),
        (
            "environment_file_refused_since_timestamp_seconds",
            "Since when; 0 where it is not.",
            state.refused.since.timestamp() if state.refused else 0,
        ),
        ("plan_differs", "Whether the leader decides by another Plan.", state.leader is not None),
    ):
        Gauge(f"gpupool_queue_{name}", text, registry=registry).set(value)
    plan = Gauge(
        "gpupool_queue_plan_since_timestamp_seconds",
        "When the process read the Plan that it works by.",
        ["plan"],
        registry=registry,
    )
    plan.labels(state.hash).set(state.since.timestamp())
    build = Gauge(
        "gpupool_build_info", "Which gpupool this is.", ["version", "environment"], registry=registry
    )
    build.labels(__version__, environment).set(1)
    return registry


@router.get("/metrics", operation_id="metrics", **of_text(("text/plain",), "Metrics."))
async def metrics(
    context: Present, request: Request, _caller: Annotated[Principal, Depends(needs("metrics:read"))]
) -> Response:
    """Figures of all tenants, for Prometheus: a key with the scope metrics:read."""
    own = generate_latest(request.app.state.registry) + generate_latest(
        _plan_figures(context.plan_state(), context.plan().environment)
    )
    if request.app.state.checks_alone:
        return Response(own, headers={"Content-Type": CONTENT_TYPE_LATEST})
    now = context.clock()
    seen = await take_snapshot(context.db, now, per_lane=0)
    waiting, settled = await jobs.waiting(context.db, now), await spending.settled(context.db)
    whole = figures(seen, context.current().supply, waiting, settled)
    return Response(own + generate_latest(whole), headers={"Content-Type": CONTENT_TYPE_LATEST})


class CheckBody(BaseModel):
    ready: bool


class PlanBody(BaseModel):
    """The Plan that the process works by."""

    hash: str
    since: datetime


class ReadyBody(CheckBody):
    plan: PlanBody
    details: list[str]
    """What is wrong though the process can work, a sentence each."""
    cluster: str | None = None
    """Why the queue does nothing on its cluster at present; left out where it works there."""


@router.get("/healthz", operation_id="healthz", response_model=CheckBody)
async def healthz() -> dict[str, bool]:
    """Whether the process answers."""
    return {"ready": True}


@router.get("/readyz", operation_id="readyz", response_model=ReadyBody, response_model_exclude_none=True)
async def readyz(context: Present, request: Request) -> dict[str, Any]:
    """Whether the process can work: there is a Plan, a database with today's tables, and its roles get on.
    One that runs jobs on a cluster is not ready while it can't; the others take requests. With a file on disk
    that is refused, or another Plan than the leader's, it can work, and says so."""
    await jobs.answers(context.db)
    trouble = context.trouble()
    if trouble is not None and request.app.state.needs_cluster:
        raise ApiProblem("cluster-unavailable", str(trouble))
    if late := request.app.state.late():
        raise ApiProblem(
            "unavailable", f"no recent step of {', '.join(late)} has succeeded; the log says why"
        )
    state = context.plan_state()
    plan = {"hash": state.hash, "since": state.since}
    cluster = str(trouble) if trouble else None
    return {"ready": True, "plan": plan, "details": state.notices(whole=True), "cluster": cluster}
