"""`/login` and `/logout`: an API key, the token of `serve --dev`, or a link with its seal for a session."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from gpupool.queue.api import auth
from gpupool.queue.api.context import RequestContext
from gpupool.queue.api.jobs import Present
from gpupool.queue.web import session
from gpupool.queue.web.rendering import HEADERS, page

router = APIRouter(include_in_schema=False)


@router.get("/login")
async def sign_in_page(
    request: Request,
    context: Present,
    next: Annotated[str, Query(max_length=1000)] = "/",
    once: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """The form; with what a link of `gpupool serve` has in `once` a session, and on to the page."""
    if not once:
        return _form(request, context, _local(next))
    begun = await session.begin_by_link(context, request, once)
    if begun is None:
        return _refused(
            request, context, "/", "The link has been used, or is too old: make up prints another."
        )
    return _signed_in(request, "/", begun)


def _form(
    request: Request, context: RequestContext, next: str, status: int = 200, error: str = ""
) -> Response:
    values = {"environment": context.plan().environment, "dev_token": context.dev and context.token}
    return page(request, "login", status, next=next, error=error, **values)


def _refused(request: Request, context: RequestContext, next: str, error: str) -> Response:
    auth.count_invalid(context, request)
    return _form(request, context, next, 401, error)


def _signed_in(request: Request, next: str, begun: str) -> Response:
    response = RedirectResponse(next, 303, HEADERS | {"Referrer-Policy": "no-referrer"})
    session.keep(response, request, session.SESSION, begun, session.LASTS_S)
    return response


@router.post("/login")
async def sign_in(request: Request, context: Present) -> Response:
    fields = await session.checked_form(request)
    next = _local(fields.get("next", "/"))
    begun = await session.begin(context, request, fields.get("key", "").strip())
    if begun is None:
        error = "This is no valid API key; it may have expired or been revoked."
        return _refused(request, context, next, error)
    return _signed_in(request, next, begun)


@router.post("/logout")
async def sign_out(request: Request, context: Present) -> Response:
    await session.checked_form(request)
    await session.end(context, request)
    response = RedirectResponse("/login", 303, HEADERS)
    for name in (session.SESSION, session.FORM):
        session.keep(response, request, name, "", 0)
    return response


def login_address(request: Request) -> str:
    """Where to sign in, and then go on to the page that was asked for."""
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return f"/login?next={quote(path[:900], safe='')}" if request.method == "GET" else "/login"


def _local(address: str) -> str:
    """An address of these pages, and of no other site."""
    bad = not address.startswith("/") or address[1:2] in ("/", "\\") or not address.isprintable()
    return "/" if bad or not address.isascii() else address
