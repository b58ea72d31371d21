"""Bounds on what a request may send: who sends it is known first, then size, media type and shape of its JSON
are checked, all before it is parsed.

Plain ASGI, because every request passes here, and because FastAPI would read a body before it asks who sends
it.
"""

from __future__ import annotations

import contextlib

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.queue.api import json_bounds
from gpupool.queue.api.auth import caller_of
from gpupool.queue.api.concurrency import ConcurrencyLimits
from gpupool.queue.api.context import RequestContext
from gpupool.queue.api.problems import ApiProblem, answer_error
from gpupool.queue.api.request_limits import HeldRequests
from gpupool.queue.store.errors import StoreError

LARGEST = 1 << 20
LARGE = 64 * 1024
"""A body of more bytes takes long to work on: of these each caller has one at a time."""
LARGEST_FORM = 16 * 1024
"""Bytes of a form of the pages, which find out themselves who sends it."""


class BodyLimit:
    """Answers 401 before it reads a body of the API, 413 to bodies over 1 MiB, 415 to other media types, 422
    to JSON that is nested too deep or has too many values, 429 to a caller who sends too much at once."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"].startswith("/api/"):
            await self._of_the_api(scope, receive, send)
        else:
            await self._app(scope, _Body(scope, receive, LARGEST_FORM).next, send)

    async def _of_the_api(self, scope: Scope, receive: Receive, send: Send) -> None:
        context: RequestContext = scope["app"].state.context
        request, body = Request(scope), _Body(scope, receive, LARGEST)
        try:
            caller = (await caller_of(context, request)).rate_limit_key
            with context.requests.hold(caller) as requests, context.bodies.hold(caller) as held:
                requests.take()
                if scope["method"] in ("GET", "HEAD", "OPTIONS"):
                    await self._limited(context.concurrency, caller, scope, receive, send)
                elif (text := await body.whole(held)) is not None:
                    _check_type(request, text)
                    limits = context.large_concurrency if len(text) > LARGE else context.concurrency
                    await self._limited(limits, caller, scope, _Replay(text, receive), send)
        except (ApiProblem, StoreError) as error:
            response = await answer_error(request, error)
            if body.more:
                response.headers["Connection"] = "close"  # the rest is not read
            await response(scope, receive, send)

    async def _limited(
        self, limits: ConcurrencyLimits[str], caller: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of the caller, whose slot ends when the answer begins: a stream takes long."""
        slot = contextlib.AsyncExitStack()
        await slot.enter_async_context(limits.of(caller))

        async def first(message: Message) -> None:
            await slot.aclose()
            await send(message)

        async with slot:
            if isinstance(receive, _Replay):
                _check_shape(receive.text)
            await self._app(scope, receive, first)


class _Body:
    """A request's body while it is received."""

    def __init__(self, scope: Scope, receive: Receive, largest: int) -> None:
        self._receive, self._largest = receive, largest
        self._read = 0
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        self._length = int(length[:12]) if length.isdigit() else 0
        self.more = bool(self._length) or b"transfer-encoding" in headers
        """Whether there is more of it to read."""

    async def next(self) -> Message:
        """The next part. Raises ApiProblem where it is too large."""
        if self._length > self._largest:
            raise self._too_large()
        message = await self._receive()
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            if self._read > self._largest:
                raise self._too_large()
            self.more = bool(message.get("more_body"))
        return message

    async def whole(self, held: HeldRequests) -> bytes | None:
        """All of it, counted as held by its sender; None where the client has gone. Raises ApiProblem."""
        text = bytearray()
        while True:
            message = await self.next()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            held.take(len(part))
            text += part
            if not message.get("more_body"):
                return bytes(text)

    def _too_large(self) -> ApiProblem:
        detail = f"the body has more than {self._largest} bytes"
        return ApiProblem("body-too-large", detail, {"Connection": "close"})


class _Replay:
    """Receives a body that has been read already, and then what comes after it."""

    def __init__(self, text: bytes, receive: Receive) -> None:
        self.text, self._receive = text, receive
        self._sent = False

    async def __call__(self) -> Message:
        if self._sent:
            return await self._receive()
        self._sent = True
        return {"type": "http.request", "body": self.text, "more_body": False}


def _check_type(request: Request, text: bytes) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if (
        text
        and kind != "application/json"
        and not (kind.startswith("application/") and kind.endswith("+json"))
    ):
        shown = kind[:100] or "none"
        raise ApiProblem("unsupported-media-type", f"the body's media type is {shown}, not application/json")


def _check_shape(text: bytes) -> None:
    try:
        # Python's parser takes UTF-16 and UTF-32 too, whose bytes say nothing of brackets (RFC 8259, 8.1).
        if b"\0" in text:
            raise UnicodeError
        text.decode("utf-8")
    except UnicodeError:
        raise ApiProblem("invalid-json", "the body is not UTF-8") from None
    try:
        json_bounds.check(text)
    except json_bounds.TooDeep:
        raise ApiProblem("json-too-deep", f"the JSON is nested deeper than {json_bounds.DEEPEST}") from None
    except json_bounds.TooMany:
        most = f"{json_bounds.MOST_VALUES:,} values, or {json_bounds.MOST_MEMBERS:,} members of objects"
        raise ApiProblem("json-too-many", f"the JSON has more than {most}") from None
