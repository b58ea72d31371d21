"""Adds the web pages to the API's application: routes, static files, errors as pages.

Who asked for HTML gets errors as pages; operations of the API keep answering problems. This module must not
hold pages.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from gpupool.queue.api.problems import Problem
from gpupool.queue.store.errors import StoreError
from gpupool.queue.web import job_pages, overview, rendering, sign_in
from gpupool.queue.web.remembered import Remembered
from gpupool.queue.web.visitor import SignInNeeded

Handler = Callable[[Request, Exception], Response | Awaitable[Response]]
_NO_PAGES = ("/api/", "/metrics", "/healthz", "/readyz", "/openapi.json")


def add_pages(app: FastAPI) -> None:
    """Make `app`, as `gpupool.queue.api.app.create_app` returns it, serve the pages."""
    app.state.remembered = Remembered(app.state.context)
    for router in (overview.router, job_pages.router, sign_in.router, rendering.router):
        app.include_router(router)
    for kind in (Problem, RequestValidationError, HTTPException, StoreError, Exception):
        app.add_exception_handler(kind, _paged(app.exception_handlers[kind]))
    app.add_exception_handler(SignInNeeded, _to_sign_in)


def _paged(answer: Handler) -> Handler:
    """`answer`, as a page where the browser asked for one."""

    async def answered(request: Request, error: Exception) -> Response:
        found = answer(request, error)
        response = await found if isawaitable(found) else found
        asked = "text/html" in request.headers.get("accept", "")
        if not asked or request.url.path.startswith(_NO_PAGES):
            return response
        problem: dict[str, Any] = json.loads(bytes(response.body))
        shown = rendering.page(request, "error", response.status_code, problem=problem)
        for name in ("retry-after", "allow"):
            if name in response.headers:
                shown.headers[name] = response.headers[name]
        return shown

    return answered


def _to_sign_in(request: Request, _error: Exception) -> Response:
    return RedirectResponse(sign_in.login_address(request), 303, rendering.HEADERS)
