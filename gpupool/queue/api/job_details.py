"""What can be asked about one job: why it waits, its logs, its result, its events.

This module must not change anything.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response, StreamingResponse

from gpupool.queue.api.answers import EventList, WaitingBody, job_json
from gpupool.queue.api.auth import Reader
from gpupool.queue.api.context import Context
from gpupool.queue.api.explanations import (
    decision_json,
    explanation_json,
    hide_others,
    offers_json,
    queued_of,
)
from gpupool.queue.api.jobs import Chosen, JobId, Present, visible
from gpupool.queue.api.problems import Problem
from gpupool.queue.events.envelope import envelope
from gpupool.queue.records import Job, State
from gpupool.queue.store import attempts, jobs, outbox

router = APIRouter(prefix="/api/v1", tags=["jobs"])
LOG_POLL_SECONDS = 1.0


class WhyBody(BaseModel):
    """Why a job is where it is."""

    id: str
    state: str
    waiting: WaitingBody | None
    position: int | None
    """Jobs that go before it; null where it is no longer queued."""
    projected_start: str | None
    """If everything runs for as long as it may; null where nothing within reach makes room."""
    terms: dict[str, Any]
    """Each term of the order with its numbers."""
    offers: list[dict[str, Any]]
    decision: dict[str, Any] | None
    """What was decided for the latest attempt."""
    estimate_usd: float
    cost_usd: float


class ResultBody(BaseModel):
    """What the target of an HTTP job answered."""

    status: int
    headers: list[tuple[str, str]]
    body: str
    encoding: str
    """utf-8, or base64 where the body is no text."""
    truncated: bool
    """Whether there was more than the first MiB."""


@router.get("/gpu-jobs/{id}/why", operation_id="why", response_model=WhyBody)
async def explain_job(context: Present, principal: Reader, chosen: Chosen, id: JobId) -> Response:
    """Why a job waits, with each term of the decision, its position and projected start."""
    job = await visible(context, principal, chosen, id)
    at = context.clock()
    shown = job_json(job, at)
    answer: dict[str, Any] = {
        "waiting": shown["waiting"],
        "position": None,
        "projected_start": None,
        "terms": {},
    }
    ready = job.state is State.QUEUED and not job.blocked and not (job.not_before and job.not_before > at)
    current = context.current()
    if ready and job.tenant in current.supply.tenants:
        before = await jobs.position(context.db, job.id)
        answer = explanation_json(await context.explanations.of(current, queued_of(job, at), before, at))
        if not principal.acts_for("*"):
            hide_others(answer["terms"], job.tenant)
    answer |= {name: shown[name] for name in ("id", "state", "estimate_usd", "cost_usd")}
    return JSONResponse(answer | {"offers": offers_json(job), "decision": decision_json(job)})


@router.get(
    "/gpu-jobs/{id}/logs",
    operation_id="logs",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "The output."}
    },
)
async def job_logs(
    context: Present,
    principal: Reader,
    chosen: Chosen,
    id: JobId,
    follow: bool = False,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    after: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
) -> Response:
    """The output of all attempts or one; with `follow` until the job has ended."""
    job = await visible(context, principal, chosen, id)
    return StreamingResponse(
        output(context, job.id, attempt, after, follow), media_type="text/plain; charset=utf-8"
    )


async def output(
    context: Context, id: str, attempt: int | None, after: int, follow: bool
) -> AsyncIterator[bytes]:
    while True:
        job: Job | None = await jobs.job(context.db, id)
        chunks = await attempts.log(context.db, id, attempt, after)
        for chunk in chunks:
            after = chunk.number
            text = chunk.text if chunk.text.endswith("\n") else chunk.text + "\n"
            yield text.encode("utf-8", "replace")
        if chunks:
            continue
        over = job is None or job.state.final or (attempt is not None and job.attempt > attempt)
        if over or not follow:
            return
        await asyncio.sleep(LOG_POLL_SECONDS)


@router.get("/gpu-jobs/{id}/result", operation_id="result", response_model=ResultBody)
async def job_result(context: Present, principal: Reader, chosen: Chosen, id: JobId) -> Response:
    """The answer to an HTTP job: status, headers and the first MiB of the body."""
    job = await visible(context, principal, chosen, id)
    found = await jobs.result(context.db, job.id)
    if found is None:
        raise Problem("no-result", f"job {job.id} is {job.state} and has no result")
    try:
        body, encoding = found.body.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        body, encoding = base64.b64encode(found.body).decode(), "base64"
    return JSONResponse(
        {
            "status": found.status,
            "headers": [list(pair) for pair in found.headers],
            "body": body,
            "encoding": encoding,
            "truncated": found.truncated,
        }
    )


@router.get("/gpu-jobs/{id}/events", operation_id="history", response_model=EventList)
async def job_events(context: Present, principal: Reader, chosen: Chosen, id: JobId) -> Response:
    """Everything that has happened to a job, in order."""
    job = await visible(context, principal, chosen, id)
    plan = context.plan()
    found = await outbox.of_job(context.db, job.id)
    prefix = plan.queue.event_prefix
    return JSONResponse({"events": [envelope(plan.environment, prefix, event) for event in found]})
