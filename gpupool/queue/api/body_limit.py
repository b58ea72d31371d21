"""Bounds on what a request may send: who sends it is known first, then size, media type and shape of its JSON
are checked, all before it is parsed.

Plain ASGI, because every request passes here, and because FastAPI would read a body before it asks who sends
it. This module must not look at what the JSON means.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.queue.api import json_bounds
from gpupool.queue.api.at_once import Held
from gpupool.queue.api.auth import caller_of
from gpupool.queue.api.context import Context
from gpupool.queue.api.problems import Problem, answer_error
from gpupool.queue.store.errors import StoreError

LARGEST = 1 << 20
LARGEST_FORM = 16 * 1024
"""Bytes of a form of the pages, which find out themselves who sends it."""


class BodyLimit:
    """Answers 401 before it reads a body of the API, 413 to bodies over 1 MiB, 415 to other media types, 422
    to JSON that is nested too deep or has too many values, 429 to a caller who sends too much at once."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
        elif scope["path"].startswith("/api/"):
            await self._of_the_api(scope, receive, send)
        else:
            await self._app(scope, _Body(scope, receive, LARGEST_FORM).next, send)

    async def _of_the_api(self, scope: Scope, receive: Receive, send: Send) -> None:
        context: Context = scope["app"].state.context
        request, body = Request(scope), _Body(scope, receive, LARGEST)
        try:
            caller = await caller_of(context, request)
            with context.bodies.hold(caller.account) as held:
                text = await body.whole(held)
                if text is not None:
                    _check(request, text)
                    await self._app(scope, _replay(text, receive), send)
        except (Problem, StoreError) as error:
            response = await answer_error(request, error)
            if body.more:
                response.headers["Connection"] = "close"  # the rest is not read
            await response(scope, receive, send)


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
        """The next part. Raises Problem where it is too large."""
        if self._length > self._largest:
            raise self._too_large()
        message = await self._receive()
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            if self._read > self._largest:
                raise self._too_large()
            self.more = bool(message.get("more_body"))
        return message

    async def whole(self, held: Held) -> bytes | None:
        """All of it, counted as held by its sender; None where the client has gone. Raises Problem."""
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

    def _too_large(self) -> Problem:
        detail = f"the body has more than {self._largest} bytes"
        return Problem("body-too-large", detail, {"Connection": "close"})


def _replay(text: bytes, receive: Receive) -> Receive:
    sent = False

    async def next_message() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": text, "more_body": False}

    return next_message


def _check(request: Request, text: bytes) -> None:
    """The media type, and the shape of the JSON. Raises Problem."""
    if not text:
        return
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        shown = kind[:100] or "none"
        raise Problem("unsupported-media-type", f"the body's media type is {shown}, not application/json")
    try:
        json_bounds.check(text)
    except json_bounds.TooDeep:
        deepest = json_bounds.DEEPEST
        raise Problem("json-too-deep", f"the JSON is nested deeper than {deepest}") from None
    except json_bounds.TooMany:
        raise Problem("json-too-many", f"the JSON has more than {json_bounds.MOST_VALUES:,} values") from None
