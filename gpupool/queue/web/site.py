"""Adds the web pages to the API's application: routes, static files, errors as pages.

Who asked for HTML gets errors as pages; operations of the API keep answering problems. This module must not
hold pages.
"""

from __future__ import annotations

import json

from fastapi import FastAPI, Request
from starlette.responses import RedirectResponse, Response

from gpupool.queue.api.problems import ERRORS, answer_error
from gpupool.queue.web import job_pages, overview, rendering, sign_in
from gpupool.queue.web.page_cache import Remembered
from gpupool.queue.web.visitor import SignInNeeded

_NO_PAGES = ("/api/", "/metrics", "/healthz", "/readyz", "/openapi.json")


def add_pages(app: FastAPI) -> None:
    """Make `app`, as `gpupool.queue.api.app.create_app` returns it, serve the pages."""
    app.state.remembered = Remembered(app.state.context)
    for router in (overview.router, job_pages.router, sign_in.router, rendering.router):
        app.include_router(router)
    for kind in ERRORS:
        app.add_exception_handler(kind, _answer_error)
    app.add_exception_handler(SignInNeeded, _to_sign_in)


async def _answer_error(request: Request, error: Exception) -> Response:
    """A problem, as a page where the browser asked for one."""
    response = await answer_error(request, error)
    asked = "text/html" in request.headers.get("accept", "")
    if not asked or request.url.path.startswith(_NO_PAGES):
        return response
    problem = json.loads(bytes(response.body))
    shown = rendering.page(request, "error", response.status_code, problem=problem)
    for name in ("retry-after", "allow"):
        if name in response.headers:
            shown.headers[name] = response.headers[name]
    return shown


async def _to_sign_in(request: Request, _error: Exception) -> Response:
    return RedirectResponse(sign_in.login_address(request), 303, rendering.HEADERS)
