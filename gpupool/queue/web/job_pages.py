"""`/jobs` and `/jobs/{id}`: the list, one job's timeline, decision, cost, logs and result; cancelling it.

Other tenants' jobs are not found.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import RedirectResponse, Response

from gpupool.queue.api.answers import decision_json, job_json, request_json, waiting_of
from gpupool.queue.api.auth import check_commands
from gpupool.queue.api.context import RequestContext
from gpupool.queue.api.job_details import chunks_of, output, terms_of
from gpupool.queue.api.jobs import JobId, Present, visible
from gpupool.queue.api.streaming import Stream
from gpupool.queue.domain.reasons import REASONS, of_end
from gpupool.queue.records import Job, JobState
from gpupool.queue.store import attempts, jobs, logs, outbox
from gpupool.queue.web import session
from gpupool.queue.web.charts import timeline
from gpupool.queue.web.overview import cost_so_far
from gpupool.queue.web.rendering import HEADERS, visitor_page
from gpupool.queue.web.visitor import CurrentVisitor, Visitor, still

router = APIRouter(include_in_schema=False)
PER_PAGE = 50
LOG_CHARACTERS = 20_000
RESULT_CHARACTERS = 20_000
Filter = Annotated[str, Query(max_length=200)]


async def _job(context: Present, visitor: CurrentVisitor, id: JobId) -> Job:
    return await visible(context, visitor.principal, visitor.chosen, id)


VisibleJob = Annotated[Job, Depends(_job)]


@router.get("/jobs")
async def job_list(
    request: Request,
    context: Present,
    visitor: CurrentVisitor,
    state: Filter = "",
    pool: Filter = "",
    project: Filter = "",
    cursor: Annotated[str, Query(max_length=300)] = "",
) -> Response:
    plan = context.plan()
    states = frozenset({JobState(state)}) if state in set(JobState) else None
    job_filter = jobs.JobFilter(visitor.scope, states, project or None, pool or None)
    page = await jobs.jobs(context.db, job_filter, cursor or None, PER_PAGE)
    mine = [tenant for tenant in plan.tenants if tenant.name in visitor.tenants]
    kept = {"tenant": visitor.chosen, "state": state, "pool": pool, "project": project}
    following = {name: value for name, value in (kept | {"cursor": page.next}).items() if value}
    now = context.clock()
    return visitor_page(
        request,
        context,
        visitor,
        "jobs",
        rows=[{"job": job, **_waiting(context, visitor, job, now)} for job in page.jobs],
        states=[one.value for one in JobState],
        pools=sorted({name for tenant in mine for name in tenant.grants}),
        projects=sorted({project.name for tenant in mine for project in tenant.projects}),
        chosen=kept,
        first=not cursor,
        following=urlencode(following) if page.next else None,
    )


@router.get("/jobs/{id}")
async def one_job(request: Request, context: Present, visitor: CurrentVisitor, job: VisibleJob) -> Response:
    plan, now = context.plan(), context.clock()
    shown = job_json(job, now, context.trouble())
    names = [name for name in (shown["gpu_pool_requested"], shown["gpu_type"]) if name not in (None, "auto")]
    tried = await attempts.of_job(context.db, job.id)
    why = await terms_of(context, visitor.principal, job)
    start = why["projected_start"] if why else None
    open_ = not job.state.final and not job.cancel_requested and visitor.principal.may("jobs:write")
    runs = job.is_http or visitor.principal.commands
    return visitor_page(
        request,
        context,
        visitor,
        "job",
        job=job,
        shown=shown,
        asked=", ".join(names) or "auto",
        **_waiting(context, visitor, job, now),
        reason=visitor.text(of_end(job), plan, job.id),
        preempt_reason=visitor.text(job.preempt_reason, plan, job.id),
        attempts=[(attempt, visitor.text(attempt.reason, plan, job.id)) for attempt in reversed(tried)],
        timeline=timeline(job, tried, now),
        events=await outbox.of_job(context.db, job.id),
        why=why,
        shown_start=datetime.fromisoformat(start) if start else None,
        decision=decision_json(job),
        request_text=json.dumps(request_json(job), indent=2, ensure_ascii=False, sort_keys=True),
        logs={one.attempt: await _log(context, job, one.attempt) for one in tried[-5:]},
        result=await _result(context, job),
        may_cancel=open_ and runs,
        sign_in_to_cancel=open_ and not runs,
    )


def _waiting(context: RequestContext, visitor: Visitor, job: Job, now: datetime) -> dict[str, Any]:
    """Why a job waits, in words that the visitor may see, and what it has cost."""
    waiting = waiting_of(job, now, context.trouble())
    mine = (job.id, *job.depends_on, *job.depends_on_ended)
    detail = visitor.text(waiting.detail, context.plan(), *mine) if waiting else ""
    remediation = REASONS[waiting.reason].remediation if waiting else ""
    return {"waiting": waiting, "detail": detail, "remediation": remediation, "cost": cost_so_far(job, now)}


async def _log(context: RequestContext, job: Job, attempt: int) -> tuple[str, bool]:
    """The end of an attempt's output, and whether there is more before it."""
    text, after, cut = "", 0, False
    while chunks := await logs.page(context.db, job.id, attempt, after):
        after = chunks[-1].number
        text += "".join(chunk.shown for chunk in chunks)
        cut = cut or len(text) > LOG_CHARACTERS
        text = text[-LOG_CHARACTERS:]
    return (text.partition("\n")[2] or text if cut else text), cut


async def _result(context: RequestContext, job: Job) -> dict[str, Any] | None:
    result = await jobs.result(context.db, job.id)
    if result is None:
        return None
    try:
        text = result.body.decode("utf-8")
    except UnicodeDecodeError:
        text = f"{len(result.body):,} bytes that are no text"
    return {
        "status": result.status,
        "headers": result.headers,
        "text": text[:RESULT_CHARACTERS],
        "cut": result.truncated or len(text) > RESULT_CHARACTERS,
    }


@router.get("/jobs/{id}/log/{attempt}")
async def whole_log(
    request: Request, context: Present, visitor: CurrentVisitor, job: VisibleJob, attempt: int
) -> Response:
    """An attempt's output as plain text."""
    text = output(chunks_of(context, job.id, min(max(attempt, 0), 1_000_000), 0, False))
    same, kind = still(context, request, visitor), "text/plain; charset=utf-8"
    return Stream(text, context.streams, visitor.principal, same, kind, HEADERS)


@router.post("/jobs/{id}/cancel")
async def cancel(request: Request, context: Present, visitor: CurrentVisitor, job: VisibleJob) -> Response:
    await session.checked_form(request)
    visitor.needs("jobs:write")
    check_commands(context, visitor.principal, job.is_http)
    await jobs.cancel(context.db, job.id, visitor.principal.subject, context.clock())
    return RedirectResponse(f"/jobs/{job.id}", 303, HEADERS)
