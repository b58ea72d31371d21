"""Answers that last: each ends soon after its caller is no longer allowed what it is about.

A stream is one request, whose credential is verified once; here it is verified again while the stream lasts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog
from fastapi import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from gpupool.queue.api import auth
from gpupool.queue.api.accept import Choice, choice_of, scope_of
from gpupool.queue.api.context import RequestContext
from gpupool.queue.api.request_limits import AtOnce
from gpupool.queue.records import Job, Principal

CHECK_S = 5.0
"""Between two verifications: a key that was found is believed for 5 s more, a pod's token for 20 s."""
EVENT_STREAM = "text/event-stream"
UNBUFFERED = {"X-Accel-Buffering": "no"}
"""For proxies that would collect an answer before they send it on."""
HEARTBEAT_SECONDS = 10.0
"""Between two signs of life of a stream: proxies end what has been quiet for 20 s or more."""
END_S = 1.0
"""For how long a reader that does not read is waited for, at the end."""
log = structlog.get_logger()
Still = Callable[[], Awaitable[bool]]


class Stream(StreamingResponse):
    """Streams `parts` for as long as `still` says so; it is asked every CHECK_S, and an error is a no.

    Of `streams` each caller, and all together, have only so many."""

    def __init__(
        self,
        parts: AsyncIterator[bytes],
        streams: AtOnce,
        caller: Principal,
        still: Still,
        media_type: str,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(parts, 200, headers, media_type)
        self._streams, self._caller, self._still = streams, caller, still

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.hold(self._caller.rate_limit_key) as held:
            held.take()
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        streaming = asyncio.create_task(super().stream_response(send))
        watching = asyncio.create_task(self._until_refused())
        try:
            await asyncio.wait({streaming, watching}, return_when=asyncio.FIRST_COMPLETED)
            if streaming.done():
                streaming.result()
                return
            streaming.cancel()
            await asyncio.wait({streaming})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            for task in (streaming, watching):
                task.cancel()
            await asyncio.gather(streaming, watching, return_exceptions=True)

    async def _until_refused(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                if not await self._still():
                    return
            except Exception as error:  # the reader asks again, and gets a problem
                log.info("stream.ended", error=str(error))
                return


def event_stream(events: AsyncIterator[bytes], streams: AtOnce, caller: Principal, still: Still) -> Stream:
    """Server-sent events, which no proxy is to keep or collect."""
    return Stream(events, streams, caller, still, EVENT_STREAM, UNBUFFERED)


def sse(position: int, data: bytes, kind: str = "") -> bytes:
    """One event of a stream; `data` is JSON, and has no line feed."""
    named = f"event: {kind}\n" if kind else ""
    return b"id: %d\n%sdata: %s\n\n" % (position, named.encode(), data)


def allowed(
    context: RequestContext,
    request: Request,
    choice: Choice,
    tenants: frozenset[str] | None,
    job: Job | None = None,
) -> Still:
    """Whether the request would still be answered: it is about `tenants`, or one job."""

    async def still() -> bool:
        caller = await auth.verified(context, request)
        chosen = choice_of(context.current(), caller, choice.tenant, choice.project, None)
        same = scope_of(caller, chosen.tenant) == tenants if job is None else caller.acts_for(job.tenant)
        return caller.may("jobs:read") and same

    return still
