"""The socket that a process of the queue listens on, and the server that answers there.

This module must not know what is answered.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gpupool.findings import GpupoolError
from gpupool.queue.api.entrance import TARGET
from gpupool.queue.store.wakeup import EVERY, SUBMITTED, Bell


def listen_on(host: str, port: int) -> tuple[socket.socket, str]:
    """The socket, and its address as a URL. Raises GpupoolError where it can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise GpupoolError(
            f"can't listen on {host}, port {port}: {error.strerror}; give another with --host or --port"
        ) from None
    return listening, f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def answer(app: ASGIApp, listening: socket.socket, bell: Bell) -> None:
    """Answer requests until cancelled; ring after each that may have changed a job."""
    config = uvicorn.Config(
        _Rings(app, bell),
        http=_Protocol,
        proxy_headers=False,
        log_config=None,
        lifespan="off",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    await _Server(config).serve([listening])


class _Protocol(HttpToolsProtocol):
    """Keeps what the request line asks for: of an address with a host in it, uvicorn hands on its path."""

    def on_headers_complete(self) -> None:
        self.scope[TARGET] = self.url  # type: ignore[literal-required]
        super().on_headers_complete()


class _Server(uvicorn.Server):
    """Without handlers of its own for signals: the service stops all its parts in order."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Rings:
    """The API, and a ring after each request that may have changed a job."""

    def __init__(self, app: ASGIApp, bell: Bell) -> None:
        self._app = app
        self._bell = bell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            submission = scope["method"] == "POST" and scope["path"].endswith("/gpu-jobs")
            self._bell.ring(SUBMITTED if submission else EVERY)
