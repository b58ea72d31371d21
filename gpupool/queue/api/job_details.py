"""What can be asked about one job: why it waits, its logs, its result, its events."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response, StreamingResponse

from gpupool.queue.api import streaming
from gpupool.queue.api.answers import EventList, WaitingBody, decision_json, job_json, of_text, offers_json
from gpupool.queue.api.auth import Reader
from gpupool.queue.api.context import RequestContext
from gpupool.queue.api.explanations import explanation_json, projection_json, queued_of
from gpupool.queue.api.jobs import Chosen, Present, ReadableJob
from gpupool.queue.api.problems import ApiProblem
from gpupool.queue.api.streaming import EVENT_STREAM, UNBUFFERED, Stream, allowed, sse
from gpupool.queue.events.envelope import envelope
from gpupool.queue.records import Job, JobState, Principal, WaitReason
from gpupool.queue.store import jobs, logs, outbox
from gpupool.queue.store.errors import StoreError

router = APIRouter(prefix="/api/v1", tags=["jobs"])
LOG_POLL_SECONDS = 1.0
Chunks = AsyncIterator[Sequence[logs.LogChunk]]
"""Output as it comes."""


class WhyBody(BaseModel):
    """Why a job is queued, and where it is in the queue."""

    id: str
    state: str
    waiting: WaitingBody | None
    position: int | None
    """Number of jobs ahead of it; null if it is no longer queued."""
    projected_start: str | None
    """If every job runs until its timeout and no job is submitted that goes first; null if it can't be
    projected."""
    projection: Literal["start", "after"] | None
    """`start`: the job starts then; `after`: it starts later."""
    terms: dict[str, Any]
    """Each term that orders the queue, with its values."""
    offers: list[dict[str, Any]]
    decision: dict[str, Any] | None
    """How the latest attempt was scheduled."""
    estimate_usd: float
    cost_usd: float


class ResultBody(BaseModel):
    """The response to an HTTP job's request."""

    status: int
    headers: list[tuple[str, str]]
    body: str
    encoding: str
    """utf-8, or base64 if the body is not text."""
    truncated: bool
    """Whether the body was longer than the first MiB."""


@router.get("/gpu-jobs/{id}/why", operation_id="why", response_model=WhyBody)
async def explain_job(context: Present, reader: Reader, job: ReadableJob) -> dict[str, Any]:
    """Why a job waits, with each term of the decision, its position and projected start."""
    shown, terms = (
        job_json(job, context.clock(), context.trouble()),
        await terms_of(context, reader, job) or {},
    )
    return {
        **shown,
        "position": None,
        **projection_json(None),
        "terms": {},
        **terms,
        **waiting_for_cluster(shown),
        "offers": offers_json(job),
        "decision": decision_json(job),
    }


def waiting_for_cluster(shown: dict[str, Any]) -> dict[str, Any]:
    """What takes the place of a round's word while the queue can't work on its cluster."""
    waiting = shown["waiting"]
    if waiting is None or waiting.reason is not WaitReason.CLUSTER:
        return {}
    return {"waiting": waiting, "projected_start": None}


async def terms_of(context: RequestContext, reader: Principal, job: Job) -> dict[str, Any] | None:
    """The explanation of a job that a round looks at, as `reader` may see it; None for others."""
    at, current = context.clock(), context.current()
    ready = job.state is JobState.QUEUED and not job.blocked and not (job.not_before and job.not_before > at)
    if not ready or not job.offers or job.tenant not in current.supply.tenants:
        return None
    explanation = await context.explanations.of(current, queued_of(job), at, reader)
    return explanation_json(explanation, job.tenant, reader)


@router.get(
    "/gpu-jobs/{id}/logs", operation_id="logs", **of_text(("text/plain", EVENT_STREAM), "The output.")
)
async def job_logs(
    request: Request,
    context: Present,
    reader: Reader,
    choice: Chosen,
    job: ReadableJob,
    follow: bool = False,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    after: Annotated[int, Query(ge=0, le=2**63 - 1)] = 0,
    tail: Annotated[
        int | None, Query(ge=1, le=logs.MOST_LINES, description="Only this many last lines.")
    ] = None,
    since: Annotated[
        int | None, Query(ge=1, le=31_536_000, description="Only output of this many last seconds.")
    ] = None,
) -> Response:
    """The output of all attempts or one; with `follow` until the job has ended.

    As text, or for `Accept: text/event-stream` as events: each has lines and the number of its attempt, its
    `id` is where `after` goes on, and after the last one comes an event `end`. A stream without it broke off.
    """
    if since is not None:
        at = context.clock() - timedelta(seconds=since)
        after = max(after, await logs.before(context.db, job.id, at))
    last = () if tail is None else await logs.end(context.db, job.id, attempt, after, tail)
    streams = EVENT_STREAM in request.headers.get("accept", "")
    written, kind = (output_events, EVENT_STREAM) if streams else (output, "text/plain; charset=utf-8")
    body = written(chunks_of(context, job.id, attempt, after, follow, last))
    if not follow:
        return StreamingResponse(body, media_type=kind, headers=UNBUFFERED)
    same = allowed(context, request, choice, None, job)
    return Stream(body, context.streams, reader, same, kind, UNBUFFERED)


async def chunks_of(
    context: RequestContext,
    id: str,
    attempt: int | None,
    after: int,
    follow: bool,
    last: Sequence[logs.LogChunk] = (),
) -> Chunks:
    """The output from after a position, or `last` and what follows it; nothing at times where no more of it
    is there yet."""
    if last:
        yield last
        after = last[-1].number
    while True:
        job: Job | None = await jobs.job(context.db, id)
        page = await logs.page(context.db, id, attempt, after)
        if page:
            after = page[-1].number
            yield page
            continue
        over = job is None or job.state.final or (attempt is not None and job.attempt > attempt)
        if over or not follow:
            return
        yield ()
        await asyncio.sleep(LOG_POLL_SECONDS)


async def output(chunks: Chunks) -> AsyncIterator[bytes]:
    """Lines as they were printed."""
    async for page in chunks:
        for chunk in page:
            yield f"{_lines(chunk)}\n".encode("utf-8", "replace")


async def output_events(chunks: Chunks) -> AsyncIterator[bytes]:
    """Server-sent events, with heartbeats where nothing is printed."""
    loop = asyncio.get_running_loop()
    sent = loop.time()
    yield b": output\n\n"
    try:
        async for page in chunks:
            for chunk in page:
                data = {"attempt": chunk.attempt, "text": _lines(chunk)}
                yield sse(chunk.number, json.dumps(data).encode())
            if page:
                sent = loop.time()
            elif loop.time() - sent >= streaming.HEARTBEAT_SECONDS:
                sent = loop.time()
                yield b": heartbeat\n\n"
    except StoreError:
        return  # the reader connects again, and then gets a problem if need be
    yield b"event: end\ndata: {}\n\n"


def _lines(chunk: logs.LogChunk) -> str:
    return chunk.shown.removesuffix("\n")


@router.get("/gpu-jobs/{id}/result", operation_id="result", response_model=ResultBody)
async def job_result(context: Present, job: ReadableJob) -> dict[str, Any]:
    """The answer to an HTTP job: status, headers and the first MiB of the body."""
    result = await jobs.result(context.db, job.id)
    if result is None:
        raise ApiProblem("no-result", f"job {job.id} is {job.state} and has no result")
    try:
        body, encoding = result.body.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        body, encoding = base64.b64encode(result.body).decode(), "base64"
    return {**asdict(result), "body": body, "encoding": encoding}


@router.get("/gpu-jobs/{id}/events", operation_id="history", response_model=EventList)
async def job_events(context: Present, job: ReadableJob) -> Response:
    """Everything that has happened to a job, in order."""
    plan = context.plan()
    found = await outbox.of_job(context.db, job.id)
    prefix = plan.queue.event_prefix
    return JSONResponse({"events": [envelope(plan.environment, prefix, event) for event in found]})
