"""`/login` and `/logout`: an API key for a session.

This module must not know what a key allows.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from gpupool.queue.api import auth
from gpupool.queue.api.jobs import Present
from gpupool.queue.web import session
from gpupool.queue.web.rendering import HEADERS, page

router = APIRouter(include_in_schema=False)


@router.get("/login")
async def sign_in_page(
    request: Request, context: Present, next: Annotated[str, Query(max_length=1000)] = "/"
) -> Response:
    return _form(request, context.plan().environment, _local(next))


def _form(request: Request, environment: str, next: str, status: int = 200, error: str = "") -> Response:
    return page(request, "login", status, environment=environment, next=next, error=error)


@router.post("/login")
async def sign_in(request: Request, context: Present) -> Response:
    fields = await session.checked_form(request)
    next = _local(fields.get("next", "/"))
    begun = await session.begin(context, fields.get("key", "").strip())
    if begun is None:
        auth.count_invalid(context, request)
        error = "This is no valid API key; it may have expired or been revoked."
        return _form(request, context.plan().environment, next, 401, error)
    response = RedirectResponse(next, 303, HEADERS)
    session.keep(response, request, session.SESSION, begun, session.LASTS_S)
    return response


@router.post("/logout")
async def sign_out(request: Request) -> Response:
    await session.checked_form(request)
    response = RedirectResponse("/login", 303, HEADERS)
    for name in (session.SESSION, session.FORM):
        session.keep(response, request, name, "", 0)
    return response


def login_address(request: Request) -> str:
    """Where to sign in, and then go on to the page that was asked for."""
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return f"/login?next={quote(asked[:900], safe='')}" if request.method == "GET" else "/login"


def _local(address: str) -> str:
    """An address of these pages, and of no other site."""
    bad = not address.startswith("/") or address[1:2] in ("/", "\\") or not address.isprintable()
    return "/" if bad or not address.isascii() else address
