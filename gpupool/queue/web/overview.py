"""`/`: pools and who holds them, the queue in its order, what starts, what runs, shares and budgets; `/live`.

This module must not decide or draw: it gathers what is known and hands it to the template.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from gpupool.queue.api.answers import waiting_of
from gpupool.queue.api.context import RequestContext
from gpupool.queue.api.jobs import Present
from gpupool.queue.api.notices import operates
from gpupool.queue.api.pools import pools_of
from gpupool.queue.api.streaming import event_stream
from gpupool.queue.domain.supply import hold_for
from gpupool.queue.prometheus import NotKnown
from gpupool.queue.records import Job, JobState, WaitReason
from gpupool.queue.store import jobs
from gpupool.queue.store.errors import StoreError
from gpupool.queue.web import shares
from gpupool.queue.web.page_cache import Remembered
from gpupool.queue.web.pool_drawing import COLOURS, drawn_pool
from gpupool.queue.web.pool_use import drawn
from gpupool.queue.web.rendering import visitor_page
from gpupool.queue.web.visitor import CurrentVisitor, Visitor, still

router = APIRouter(include_in_schema=False)
SHOWN = 25
"""Rows of the queue; the list of jobs has the rest."""
LIVE_POLL_S, LIVE_LONGEST_S = 1.0, 900.0


def remembered(request: Request) -> Remembered:
    found: Remembered = request.app.state.remembered
    return found


Shared = Annotated[Remembered, Depends(remembered)]


@router.get("/")
async def overview(request: Request, context: Present, visitor: CurrentVisitor, shared: Shared) -> Response:
    seen = await context.explanations.snapshot(context.clock())
    colours = colours_of(context)
    held = await jobs.jobs(
        context.db,
        jobs.JobFilter(visitor.scope, frozenset({JobState.SCHEDULED, JobState.RUNNING})),
        None,
        50,
    )
    depth = await jobs.depth(context.db)
    pools = pools_of(context, visitor.principal, visitor.chosen)
    rows, names = await _queue(context, visitor, shared)
    names |= {job.id: job.name for job in held.jobs}
    return visitor_page(
        request,
        context,
        visitor,
        "overview",
        pools=[
            {
                **drawn_pool(pool, context.current().supply.pools[pool.name], seen, colours, visitor),
                "grants": shares.grants(context, visitor, seen, pool),
            }
            for pool in pools
        ],
        use=await _use(context, visitor, shared, [pool.name for pool in pools]),
        queue=rows,
        waiting=sum(
            count for (tenant, _), count in depth.items() if visitor.scope is None or tenant in visitor.scope
        ),
        starting=[_held(context, visitor, job) for job in held.jobs if job.state is JobState.SCHEDULED],
        running=[_held(context, visitor, job) for job in held.jobs if job.state is JobState.RUNNING],
        more=held.next is not None,
        names=names,
        **await shares.of(context, visitor, shared, seen, depth, colours),
    )


async def _use(
    context: RequestContext, visitor: Visitor, shared: Remembered, pools: list[str]
) -> dict[str, Any] | None:
    """How much the visitor's pools were used, or why that is not known; None where no Prometheus is named."""
    url = context.plan().queue.idle_prometheus
    if url is None:
        return None
    use = await shared.pool_use(url)
    if isinstance(use, NotKnown):
        return {"pools": [], "unknown": str(use) if operates(context, visitor.principal) else ""}
    return {"pools": list(drawn(use, pools)), "unknown": None}


def colours_of(context: RequestContext) -> dict[str, str]:
    """Tenant -> class of its colour."""
    return {tenant.name: f"c{index % COLOURS}" for index, tenant in enumerate(context.plan().tenants)}


async def _queue(
    context: RequestContext, visitor: Visitor, shared: Remembered
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The first rows of the queue, and the names of their jobs."""
    plan, now = context.plan(), context.clock()
    prospects = (await shared.prospects(visitor.chosen))[:SHOWN]
    mine = [prospect.job.job for prospect in prospects if visitor.principal.acts_for(prospect.job.tenant)]
    known = {job.id: job for id in mine if (job := await jobs.job(context.db, id))}
    rows = []
    for one in prospects:
        job = known.get(one.job.job)
        if job is not None and job.state is not JobState.QUEUED:
            continue
        waiting = one.waiting or (waiting_of(job, now) if job else None)
        start = one.projection
        rows.append(
            {
                "job": job,
                "tenant": visitor.name(one.job.tenant),
                "priority": one.job.level.name.lower(),
                "reason": waiting.reason.value if waiting else WaitReason.QUEUED.value,
                "detail": visitor.text(waiting.detail, plan, one.job.job) if waiting and job else "",
                "ahead": f"{one.ahead}+" if one.more_ahead else one.ahead,
                "start": None if start is None else max(now, datetime.fromtimestamp(start.at, UTC)),
                "after": start is not None and not start.exact,
                "waited": now.timestamp() - one.job.enqueued,
            }
        )
    if len(rows) < SHOWN:
        rows += await _held_back(context, visitor, {one.job.job for one in prospects})
    return rows[:SHOWN], {id: job.name for id, job in known.items()}


async def _held_back(context: RequestContext, visitor: Visitor, listed: set[str]) -> list[dict[str, Any]]:
    """Queued jobs that no round looks at: they back off, wait for another job, or are not possible."""
    now = context.clock()
    queued = await jobs.jobs(
        context.db, jobs.JobFilter(visitor.scope, frozenset({JobState.QUEUED})), None, 50
    )
    return [
        {
            "job": job,
            "tenant": job.tenant,
            "priority": job.level.name.lower(),
            "reason": waiting.reason.value,
            "detail": visitor.text(waiting.detail, context.plan(), *job.depends_on, *job.depends_on_ended),
            "ahead": None,
            "start": None,
            "after": False,
            "waited": (now - job.enqueued_at).total_seconds(),
        }
        for job in queued.jobs
        if job.id not in listed
        and (waiting := waiting_of(job, now))
        and waiting.reason in (WaitReason.BACKOFF, WaitReason.DEPENDENCY, WaitReason.UNSCHEDULABLE)
    ]


def cost_so_far(job: Job, now: datetime) -> int:
    """What a job has cost, the running attempt at its rate."""
    if job.started_at is None or job.state is not JobState.RUNNING:
        return job.cost_micro
    ran = max(0, int((now - job.started_at).total_seconds()))
    return job.cost_micro + min(job.hold_micro or 0, hold_for(job.rate_micro or 0, ran))


def _held(context: RequestContext, visitor: Visitor, job: Job) -> dict[str, Any]:
    """A job that holds slots: it starts or runs."""
    now = context.clock()
    since_ = job.started_at or job.dispatched_at or now
    return {
        "job": job,
        "reason": job.waiting.reason.value if job.waiting else "",
        "detail": visitor.text(job.waiting.detail, context.plan(), job.id) if job.waiting else "",
        "nodes": ", ".join(str(node) for node, _ in job.placement),
        "for": max(0.0, (now - since_).total_seconds()),
        "limit": job.run_limit_s,
        "cost": cost_so_far(job, now),
    }


@router.get("/live")
async def live(request: Request, context: Present, visitor: CurrentVisitor) -> Response:
    """Server-sent events without content: something has changed, so that a page may be read again."""
    same = still(context, request, visitor)
    return event_stream(_changes(context), context.streams, visitor.principal, same)


async def _changes(context: RequestContext) -> AsyncIterator[bytes]:
    """Ends after a while, so that none is for ever."""
    begin = asyncio.get_running_loop().time()
    last = -1
    yield b"retry: 3000\n\n"
    while asyncio.get_running_loop().time() - begin < LIVE_LONGEST_S:
        try:
            latest = await context.latest_position()
        except StoreError:
            return
        yield b"data: changed\n\n" if latest > last >= 0 else b": still here\n\n"
        last = latest
        await asyncio.sleep(LIVE_POLL_S)
