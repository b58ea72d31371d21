"""The connections of a client: each process, and for asyncio each event loop, has its own.

What two processes read from one connection are parts of each other's answers. So a client is no more than its
settings, and opens connections where it is used.
"""

from __future__ import annotations

import os
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

import httpx2

from .errors import NotSent
from .settings import Settings

_H = TypeVar("_H", bound=httpx2.Client | httpx2.AsyncClient)
Owner = tuple[int, AbstractEventLoop | None]
"""The process and, for asyncio, the event loop that connections belong to."""


class Connected(Generic[_H]):
    """What both clients are made of: the settings, and a client of httpx2."""

    _connect: Callable[..., _H]
    notices: tuple[str, ...] = ()
    """What the queue said of itself with its last answer, such as that its environment file is refused."""

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        tenant: str | None = None,
        project: str | None = None,
        user: str | None = None,
        timeout: float = 30.0,
        retry_for: float = 60.0,
        connect_for: float | None = None,
        lost_after: float = 3600.0,
        transport: Any = None,
    ) -> None:
        """What is not given is read from GPUPOOL_URL, GPUPOOL_KEY and GPUPOOL_TENANT. All times are seconds:
        `timeout` for a connection and for each part of an answer; `retry_for` for how long a request without
        an answer is sent again where that is safe, and `connect_for` while there was no connection at all;
        `lost_after` for how long one who waits for a job goes on asking. `transport` replaces the network in
        tests. Raises NotSent where one of these can't be used."""
        connect_for = retry_for if connect_for is None else connect_for
        self._settings = Settings(
            url, key, tenant, project, user, timeout, retry_for, connect_for, lost_after
        )
        self._options = self._settings.options(transport)
        self._opened: dict[Owner, _H] = {}

    @property
    def lost_after(self) -> float:
        """For how long, in seconds, one who waits for a job goes on asking a queue that gives no answer."""
        return self._settings.lost_s

    def _owner(self) -> Owner:
        """Whose the connections are that may be used here and now."""
        return os.getpid(), None

    @property
    def _http(self) -> _H:
        owner = self._owner()
        http = self._opened.get(owner)
        if http is None:
            # Without a lock, which a fork could copy while it is held: of two threads, one has made it.
            http = self._opened.setdefault(owner, self._connected())
        return http

    def _connected(self) -> _H:
        try:
            return self._connect(**self._options)
        except (ValueError, ImportError, OSError, httpx2.InvalidURL):
            # Whose texts may have a proxy's password.
            raise NotSent(
                "the addresses of proxies in HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, or the certificates at "
                "SSL_CERT_FILE and SSL_CERT_DIR, can't be used; correct or unset them"
            ) from None

    def waiting(self, for_s: float | None = None) -> Self:
        """This client, over the same connections, for one who waits: it asks again where there is no answer
        for `lost_after` seconds, or `for_s` if that is less, and outlasts errors of the queue."""
        now = self._settings
        retry_s = now.lost_s if for_s is None else max(0.0, min(now.lost_s, for_s))
        timeout_s = now.timeout_s if for_s is None else max(1.0, min(now.timeout_s, for_s))
        waiting = object.__new__(type(self))
        vars(waiting).update(vars(self))
        waiting._settings = replace(now, timeout_s=timeout_s, retry_s=retry_s, connect_s=retry_s, waits=True)
        return waiting

    def __getstate__(self) -> dict[str, Any]:
        """As pickle needs it: another process opens connections of its own. The key goes with it."""
        return vars(self) | {"_opened": {}}


class ConnectedByLoop(Connected[httpx2.AsyncClient]):
    """For asyncio, whose connections belong to an event loop."""

    def _owner(self) -> Owner:
        return os.getpid(), get_running_loop()

    def _connected(self) -> httpx2.AsyncClient:
        # Those of loops that have ended can't be closed any more. Those of another process must not be: they
        # would be taken out of its selector.
        for process, loop in list(self._opened):
            if process == os.getpid() and loop is not None and loop.is_closed():
                self._opened.pop((process, loop), None)
        return super()._connected()
