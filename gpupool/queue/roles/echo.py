"""A server on this machine that answers each request with what it got: the target of a first HTTP job.

For `serve --dev` alone. It must not be reachable from outside.
"""

from __future__ import annotations

import json
from types import TracebackType
from typing import Self

from aiohttp import web


class Echo:
    """Runs while it is entered; `port` is where."""

    def __init__(self) -> None:
        app = web.Application(client_max_size=2 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", _answer)
        self._runner = web.AppRunner(app, access_log=None)
        self.port = 0

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()


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
