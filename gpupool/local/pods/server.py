"""The kubelet's answer to `kubectl logs`: GET /containerLogs/NAMESPACE/POD/CONTAINER, for the API server.

Refusals have status 400, because the API server passes on the text of no other one below 500.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aiohttp import web

from gpupool.local.pods.output import LogOptions
from gpupool.local.pods.runner import Runner


@asynccontextmanager
async def serving(runner: Runner, port: int, certificate: Path, key: Path) -> AsyncIterator[None]:
    """Answer on this port while the block runs; only clients that have the same certificate are heard."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificate))
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(certificate, key)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await _logs(runner, request)

    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", answer)
    server = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await server.setup()
    await web.TCPSite(server, "127.0.0.1", port, ssl_context=tls).start()
    try:
        yield
    finally:
        await server.cleanup()


async def _logs(runner: Runner, request: web.Request) -> web.StreamResponse:
    namespace, pod = request.match_info["namespace"], request.match_info["pod"]
    life = runner.find(namespace, pod)
    if life is None:
        text = f"pod {namespace}/{pod} is simulated: it has no process and no output"
        raise web.HTTPBadRequest(text=f"{text} (annotation gpupool.dev/run-locally would run it)")
    if request.query.get("previous") == "true":
        return web.Response()
    if life.output is None:
        name = request.match_info["container"]
        raise web.HTTPBadRequest(text=f'container "{name}" in pod "{pod}" is waiting to start')
    answer = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
    left = int(request.query.get("limitBytes", 0)) or None
    await answer.prepare(request)
    async for piece in life.output.read(_log_options(request.query)):
        await answer.write(piece[:left])
        if left is not None:
            left -= len(piece)
            if left <= 0:
                break
    return answer


def _log_options(query: Mapping[str, str]) -> LogOptions:
    """The API server has checked the values."""
    since = datetime.fromisoformat(query["sinceTime"]) if "sinceTime" in query else None
    if "sinceSeconds" in query:
        since = datetime.now(UTC) - timedelta(seconds=int(query["sinceSeconds"]))
    return LogOptions(
        follow=query.get("follow") == "true",
        timestamps=query.get("timestamps") == "true",
        tail=int(query["tailLines"]) if "tailLines" in query else None,
        since=since,
    )
