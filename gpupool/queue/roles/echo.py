"""A server on this machine that answers each request with what it got: the target of a first HTTP job.

For `serve --dev` alone. It must not be reachable from outside.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """Runs while it is entered; the port."""
    app = web.Application(client_max_size=2 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", _answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def _answer(request: web.Request) -> web.Response:
    text = await request.text()
    try:
        body = json.loads(text) if text else None
    except ValueError:
        body = text
    return web.json_response(
        {
            "echo": body,
            "method": request.method,
            "path": request.path,
            "job": request.headers.get("X-Gpupool-Job"),
            "attempt": request.headers.get("X-Gpupool-Attempt"),
        }
    )
