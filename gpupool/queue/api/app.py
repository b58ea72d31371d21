"""Puts the API together: operations, errors, bounds, the OpenAPI document.

`gpupool.queue.service` starts it; the web pages are added there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from gpupool import __version__
from gpupool.queue.api import job_details, jobs, metrics, pools, several_jobs, stream, usage
from gpupool.queue.api.auth import SCHEMES
from gpupool.queue.api.body_limit import BodyLimit
from gpupool.queue.api.cache import Cache
from gpupool.queue.api.concurrency import ConcurrencyLimits
from gpupool.queue.api.context import RequestContext, utc_now
from gpupool.queue.api.credentials import Keys
from gpupool.queue.api.entrance import Entrance
from gpupool.queue.api.explanations import Explanations
from gpupool.queue.api.oidc import Oidc
from gpupool.queue.api.problems import ERRORS, MEDIA_TYPE, answer_error
from gpupool.queue.api.rate import Buckets
from gpupool.queue.api.request_limits import AtOnce
from gpupool.queue.api.token_review import PodTokens
from gpupool.queue.domain.current import Current
from gpupool.queue.kubernetes.admission import Admission
from gpupool.queue.plan_source import PlanState
from gpupool.queue.store.database import Database
from gpupool.queue.trouble import Trouble

ROUTERS: tuple[APIRouter, ...] = (
    jobs.router, several_jobs.router, job_details.router, stream.router, pools.router, usage.router,
    metrics.router
)  # fmt: skip
_PROBLEM = json.loads(Path(__file__).with_name("problem.schema.json").read_text("utf-8"))
_PROBLEM_CONTENT = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "A problem with the request.", "content": _PROBLEM_CONTENT},
    "5XX": {"description": "A problem of the queue.", "content": _PROBLEM_CONTENT},
}


class _Application(FastAPI):
    """FastAPI within the entrance: also what it answers where all else fails has passed there."""

    def build_middleware_stack(self) -> ASGIApp:
        return Entrance(super().build_middleware_stack(), self.state.context)


def create_app(
    current: Callable[[], Current],
    db: Database,
    *,
    dev: bool = False,
    token: Path | None = None,
    metrics_key: str | None = None,
    clock: Callable[[], datetime] = utc_now,
    oidc: Oidc | None = None,
    pods: PodTokens | None = None,
    admission: Admission | None = None,
    rate: Buckets | None = None,
    failures: Buckets | None = None,
    registry: CollectorRegistry | None = None,
    late: Callable[[], Sequence[str]] = list,
    trouble: Callable[[], Trouble | None] = lambda: None,
    needs_cluster: bool = False,
    checks_alone: bool = False,
    plan_state: Callable[[], PlanState] | None = None,
) -> FastAPI:
    """The API over `db`. `dev`: requests from loopback need no credential, and one with the token in the file
    `token`, or an API key, to run commands. `metrics_key` may read metrics. `pods` verifies tokens of pods;
    without it none is accepted. `admission` judges container jobs by the cluster's policies; without it
    nothing does. `rate`: requests of each caller; `failures`: invalid credentials of each address.
    `registry`: metrics that other roles of the process keep, shown at /metrics as well. `late`: roles of the
    process that don't get on, so that it is not ready. `trouble`: what keeps the queue from working on its
    cluster, so that a process that `needs_cluster` is not ready either. `checks_alone`: of the operations
    those of `metrics`, for a process that runs other roles. `plan_state`: what is wrong about the Plan; by
    default nothing is."""
    started = clock()
    app = _Application(
        title="gpupool job queue",
        version=__version__,
        description="Submit GPU jobs, see why they wait and what they cost.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None if checks_alone else "/openapi.json",
        redirect_slashes=False,
    )
    app.state.context = RequestContext(
        current=current,
        plan_state=plan_state or (lambda: PlanState(current().hash, started)),
        db=db,
        dev=dev,
        token=token,
        metrics_key=metrics_key,
        clock=clock,
        trouble=trouble,
        keys=Keys(db),
        oidc=oidc or Oidc(),
        pods=pods,
        admission=admission,
        explanations=Explanations(db),
        positions=Cache(seconds=0.25),
        requests=AtOnce("requests", each=128, all=800),
        concurrency=ConcurrencyLimits(8),
        large_concurrency=ConcurrencyLimits(1),
        bodies=AtOnce("bytes of bodies", each=8 * 2**20, all=32 * 2**20),
        streams=AtOnce("streams", each=32, all=256),
        rate=rate or Buckets(per_second=1000, burst=2000),
        failures=failures or Buckets(per_second=2, burst=60),
    )
    app.state.registry = registry or CollectorRegistry()
    app.state.late = late
    app.state.needs_cluster = needs_cluster
    app.state.checks_alone = checks_alone
    for router in (metrics.router,) if checks_alone else ROUTERS:
        app.include_router(router, responses=_RESPONSES)
    app.add_middleware(BodyLimit)
    for kind in ERRORS:
        app.add_exception_handler(kind, answer_error)
    app.openapi = lambda: openapi(app)  # type: ignore[method-assign]
    return app


def openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        document["components"]["schemas"]["Problem"] = _PROBLEM
        document["components"]["securitySchemes"] = SCHEMES
        for path, operations in document["paths"].items():
            for operation in operations.values() if path not in metrics.OPEN else ():
                operation["security"] = [{name: []} for name in SCHEMES]
        app.openapi_schema = document
    return app.openapi_schema
