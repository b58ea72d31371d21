"""The socket that a process of the queue listens on, and the server that answers there."""

from __future__ import annotations

import contextlib
import functools
import logging
import resource
import socket
from collections.abc import Iterator
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from gpupool.findings import GpupoolError
from gpupool.queue.connections import Connection, Connections
from gpupool.queue.store.wakeup import EVERY, SUBMITTED, Bell

_KERNEL_BYTES = 64 * 1024
"""Of answers of one connection that the kernel keeps; Linux doubles it (socket(7))."""
_UNACKNOWLEDGED_MS = 30_000
"""A connection whose client acknowledges nothing for so long is over, also after it was closed (tcp(7))."""


def listen_on(host: str, port: int) -> tuple[socket.socket, str]:
    """The socket, and its address as a URL. Raises GpupoolError where it can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise GpupoolError(
            f"can't listen on {host}, port {port}: {error.strerror}; give another with --host or --port"
        ) from None
    # Connections inherit both: what waits in the kernel for who does not read is in no bound of ours.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BYTES)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
    return listening, f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def answer(app: ASGIApp, listening: socket.socket, bell: Bell) -> None:
    """Answer requests until cancelled; ring after each that may have changed a job."""
    _more_descriptors()
    await Server(_Rings(app, bell)).serve([listening])


class Server(uvicorn.Server):
    """uvicorn's, with bounds on connections, and without handlers of its own for signals: the service stops
    all its parts in order."""

    def __init__(self, app: ASGIApp, connections: Connections | None = None) -> None:
        self.connections = connections or Connections()
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # it has a warning for each wrong request
        super().__init__(
            uvicorn.Config(
                app,
                http=cast(Any, functools.partial(Connection, self.connections)),
                ws="none",
                log_config=None,
                lifespan="off",
                access_log=False,
                server_header=False,
                proxy_headers=False,  # what proxies say is believed as the environment file says
                timeout_graceful_shutdown=3,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        if counter % 5 == 0:  # of ten a second
            self.connections.sweep()
        return await super().on_tick(counter)


def _more_descriptors() -> None:
    """As many open files as may be: the usual 1,024 would end before the connections that are allowed do."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


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
