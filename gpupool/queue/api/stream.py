"""GET /api/v1/events: the events of the caller's tenants as they happen (server-sent events).

Each event's `id` is its position among all events, which Last-Event-ID continues after. A stream ends when
its reader may no longer read (`gpupool.queue.api.streaming`), and after a quarter of an hour. This module
must not place or publish events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from gpupool.queue.api import streaming
from gpupool.queue.api.accept import scope_of
from gpupool.queue.api.answers import of_text
from gpupool.queue.api.auth import Reader
from gpupool.queue.api.context import RequestContext
from gpupool.queue.api.jobs import Chosen, Present
from gpupool.queue.api.problems import ApiProblem
from gpupool.queue.api.requests import POSITION
from gpupool.queue.api.streaming import EVENT_STREAM, allowed, event_stream, sse
from gpupool.queue.events.envelope import encoded, envelope
from gpupool.queue.store import outbox
from gpupool.queue.store.errors import StoreError

router = APIRouter(prefix="/api/v1", tags=["events"])
POLL_SECONDS = 0.5
LONGEST_SECONDS = 900.0
BATCH = 200


@router.get("/events", operation_id="events", **of_text((EVENT_STREAM,), "Events."))
async def events(
    request: Request,
    context: Present,
    principal: Reader,
    choice: Chosen,
    last_event_id: Annotated[str | None, Header(max_length=18, pattern=POSITION)] = None,
    after: Annotated[str | None, Query(max_length=18, pattern=POSITION)] = None,
) -> Response:
    """Follow events, from now on or after the position in Last-Event-ID or `after`. 410: that one is gone."""
    tenants = scope_of(principal, choice.tenant)
    oldest, latest = await outbox.bounds(context.db)
    position = latest
    if last_event_id is not None or after is not None:
        position = int(last_event_id or after or 0)
        if position > latest or position < oldest - 1:
            raise ApiProblem(
                "events-pruned", f"there is no event after {position}; present are {oldest} to {latest}"
            )
    still = allowed(context, request, choice, tenants)
    return event_stream(follow(context, tenants, position), context.streams, principal, still)


async def follow(
    context: RequestContext, tenants: frozenset[str] | None, position: int
) -> AsyncIterator[bytes]:
    """The stream's bytes, from after `position`."""
    yield f"retry: 2000\nid: {position}\n: events after {position}\n\n".encode()
    started = quiet_since = asyncio.get_running_loop().time()
    while True:
        now = asyncio.get_running_loop().time()
        try:
            latest = await context.latest_position()
            job_events = await outbox.after(context.db, position, tenants, BATCH) if latest > position else []
        except StoreError:
            return  # the reader connects again, and then gets a problem if need be
        plan = context.plan()
        for event in job_events:
            assert event.position is not None
            data = encoded(envelope(plan.environment, plan.queue.event_prefix, event))
            yield sse(event.position, data, event.type)
            position, quiet_since = event.position, now
        if len(job_events) == BATCH:
            continue
        # Events of others are passed over as well: what is not there now is not looked for again.
        position = max(position, latest)
        if now - started > LONGEST_SECONDS:
            return
        if now - quiet_since >= streaming.HEARTBEAT_SECONDS:
            quiet_since = now
            yield f"id: {position}\n: heartbeat\n\n".encode()
        await asyncio.sleep(POLL_SECONDS)
