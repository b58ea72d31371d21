"""Bounds on what a request may send, checked before it is parsed: media type, size, depth of its JSON.

Plain ASGI, because every request passes here. This module must not look at what the JSON means.
"""

from __future__ import annotations

import re

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.queue.api.problems import Problem, answer

LARGEST = 1 << 20
DEEPEST = 20
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
"""A string that does not end is one as well: each byte is looked at once, whatever the body."""


class BodyLimit:
    """Answers 413 to bodies over 1 MiB, 415 to other media types, 422 to JSON nested deeper than 20."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            body = await _read(request)
            if body and scope["path"].startswith("/api/"):  # forms of the pages check theirs themselves
                _check_type(request.headers.get("content-type", ""))
                _check_depth(body)
        except ClientDisconnect:
            return
        except Problem as problem:
            await answer(problem, scope["path"])(scope, receive, send)
            return
        sent = False

        async def replay() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)


async def _read(request: Request) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:12]) > LARGEST:
        raise _too_large()
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            raise _too_large()
    return bytes(body)


def _check_type(said: str) -> None:
    kind = said.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        shown = kind[:100] or "none"
        raise Problem("unsupported-media-type", f"the body's media type is {shown}, not application/json")


def _too_large() -> Problem:
    return Problem("body-too-large", f"the body has more than {LARGEST} bytes", {"Connection": "close"})


def _check_depth(body: bytes) -> None:
    if body.count(b"{") + body.count(b"[") <= DEEPEST:
        return
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEEPEST:
            raise Problem("json-too-deep", f"the JSON is nested deeper than {DEEPEST}")
