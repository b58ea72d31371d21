"""HTTP connections with bounds: deadlines, sizes, how many there are, and who has to make room.

uvicorn's protocol has a deadline for idle connections alone. Here each phase of a request has one, and where
there are too many connections, the one goes that has been unfinished for longest: one address, which may be a
proxy's or this machine's, is never locked out.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gpupool.queue.api.entrance import HEADERS, TARGET
from gpupool.queue.api.problems import ApiProblem, answer


@dataclass(frozen=True, slots=True)
class Bounds:
    """What connections may cost; seconds and bytes."""

    connections: int = 1000
    """Of the process; more are answered 503."""
    unfinished_each: int = 100
    """Of one address, of those that are older than `grace_s`."""
    grace_s: float = 1.0
    """No connection that is younger makes room for another."""
    header_s: float = 10.0
    """From the first byte, or from the connection's beginning, to the end of the header."""
    body_s: float = 20.0
    """From there to the end of the body."""
    linger_s: float = 2.0
    """For what still comes of a request that is answered already, so that its sender can read the answer."""
    unread_s: float = 30.0
    """A client that has taken less than `least_read` bytes in so long, where there were more, is left."""
    least_read: int = 32 * 1024
    unsent: int = 32 * 2**20
    """Bytes of all answers that wait for their readers."""
    target: int = 8 * 1024
    header: int = 32 * 1024
    """Names and values of the header; a token has up to 16 KiB."""
    header_fields: int = 100
    request: int = 2**20 + 192 * 1024
    """All bytes of a request as they are sent: a body of 1 MiB, its header, and the frames of its chunks."""
    pipelined: int = 8
    """Requests that wait for the answers to those before them."""


_LARGE = 256 * 1024
"""An answer of more bytes does not wait for the next sweep to be counted."""


class _Refused(Exception):
    """Ends the parsing of a request."""


class Connections:
    """All connections of a server, so that they are bounded together."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self.bounds = bounds or Bounds()
        self.opened = set[Connection]()
        self.unfinished = dict[Connection, None]()
        """Those whose request is not complete, the oldest first."""
        self.idle = dict[Connection, None]()
        """Those that wait for another request, the oldest first."""

    def has_room(self, now: float) -> bool:
        """Whether one more fits; another one may have made room for it."""
        if len(self.opened) <= self.bounds.connections:
            return True
        for waiting in (self.idle, self.unfinished):
            longest = next(iter(waiting), None)
            if longest is not None and now - longest.since >= self.bounds.grace_s:
                longest.drop()
                return True
        unread = [connection for connection in self.opened if connection.transport.get_write_buffer_size()]
        slowest = min(unread, key=lambda connection: connection.took, default=None)
        if slowest is not None and now - slowest.took >= self.bounds.grace_s:
            slowest.drop()
            return True
        return False

    def sweep(self) -> None:
        """End what is overdue. To be called about twice a second."""
        now = time.monotonic()
        each = Counter(connection.address for connection in self.unfinished)
        for connection in list(self.unfinished):
            old = now - connection.since >= self.bounds.grace_s
            if now >= connection.due:
                connection.overdue()
            elif old and each[connection.address] > self.bounds.unfinished_each:
                each[connection.address] -= 1
                connection.drop()
        self.bound_unsent(now)

    def bound_unsent(self, now: float) -> None:
        """Drop who reads no more, and the largest of what waits where it is too much together."""
        unsent = {connection: connection.unsent(now) for connection in list(self.opened)}
        total = sum(unsent.values())
        for connection in sorted(unsent, key=lambda one: -unsent[one]):
            if total <= self.bounds.unsent:
                break
            total -= unsent[connection]
            connection.drop()


class Connection(HttpToolsProtocol):
    """One connection. Its request is unfinished until its last byte is there."""

    def __init__(self, among: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._among, self._bounds = among, among.bounds
        self.since = time.monotonic()
        """When its unfinished request began, or when it became idle."""
        self.due = math.inf
        self._received = self._header = 0
        self._in_header = True
        self._leaving = False
        """Whether it is answered for the last time; what still comes is thrown away."""
        self._refusal: ApiProblem | None = None
        self._written = self._taken = 0
        self.took = self.since
        """When the client last took a part of an answer."""

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    # Phases

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._among.opened.add(self)
        self._begin()
        if not self._among.has_room(self.since):
            self._refuse(ApiProblem("unavailable", "there are too many connections; try again"))
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _begin(self) -> None:
        if self not in self._among.unfinished:
            self._among.idle.pop(self, None)
            self._among.unfinished[self] = None
            self.since = time.monotonic()
            self.due = self.since + self._bounds.header_s
            self._in_header, self._header = True, 0

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _end(self) -> None:
        """The request is complete, or there was none."""
        self._among.unfinished.pop(self, None)
        self.due = math.inf
        self._received = 0
        if not self._answering():
            self._among.idle[self] = None
            self.since = time.monotonic()

    def _forget(self) -> None:
        self._among.opened.discard(self)
        self._among.unfinished.pop(self, None)
        self._among.idle.pop(self, None)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._leaving:
            if self._received > self._bounds.request:
                self.drop()
            return
        if not self._answering():
            self._begin()
        super().data_received(data)
        if self._leaving:
            return
        if self._in_header and self._received > self._bounds.header + self._bounds.target:
            self._refuse(self._too_long())
        elif self._received > self._bounds.request:
            self._refuse(
                ApiProblem("body-too-large", f"the request has more than {self._bounds.request} bytes")
            )

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        self._begin()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        if len(self.url) + len(url) > self._bounds.target:
            self._stop(self._too_long())
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_header:
            return  # a trailer: what comes after the body is no header that has been checked
        self._header += len(name) + len(value)
        if self._header > self._bounds.header or len(self.headers) >= self._bounds.header_fields:
            self._stop(self._too_long())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self._bounds.pipelined:
            self._stop(
                ApiProblem("invalid-http", "too many requests wait for the answers to those before them")
            )
        self.scope[TARGET] = self.url  # type: ignore[literal-required]
        super().on_headers_complete()
        self._in_header = False
        self.due = time.monotonic() + self._bounds.body_s
        self.cycle.transport = cast(asyncio.Transport, _Answer(self))

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._end()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self not in self._among.unfinished and not self._answering():
            self._end()

    def _stop(self, problem: ApiProblem) -> None:
        self._refusal = problem
        raise _Refused

    def _too_long(self) -> ApiProblem:
        allowed = f"{self._bounds.target} bytes of address, {self._bounds.header} of header"
        return ApiProblem("header-too-large", f"the request has more than {allowed}, or too many fields")

    # Ends

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  uvicorn's
        self._refuse(self._refusal or ApiProblem("invalid-http", "the request is not HTTP/1.1"))

    def overdue(self) -> None:
        """Refuse the request that has not come in time; an idle connection just ends."""
        if self._leaving or (self._in_header and self._received == 0):
            self.drop()
        else:
            part = "header" if self._in_header else "body"
            allowed = self._bounds.header_s if self._in_header else self._bounds.body_s
            self._refuse(
                ApiProblem("request-timeout", f"the request's {part} took longer than {allowed:g} s")
            )

    def _refuse(self, problem: ApiProblem) -> None:
        """Answer the unfinished request, unless that answer or one before it has begun, and leave."""
        cycle = self.cycle
        begun = cycle is not None and (self._answering() if self._in_header else cycle.response_started)
        if self.leaving() or self.pipeline or begun:
            self.drop()
            return
        if cycle is not None and not self._in_header:
            cycle.disconnected = True
            cycle.message_event.set()
        response = answer(problem, "")
        lines = [b"%s: %s\r\n" % row for row in (*response.raw_headers, *HEADERS.items())]
        status = f"HTTP/1.1 {response.status_code} {problem.name}\r\n".encode()
        self.write(status + b"".join(lines) + b"connection: close\r\n\r\n" + bytes(response.body))
        self.leave()

    def write(self, data: bytes) -> None:
        self._written += len(data)
        self.transport.write(data)
        if len(data) > _LARGE:
            self._among.bound_unsent(time.monotonic())

    def leave(self) -> None:
        """Close after what was written. Where more of the request may come, that is read for a while: closed
        with something unread, TCP would throw away the answer too (RFC 9112, 9.6)."""
        self.pipeline.clear()
        if self not in self._among.unfinished or self.transport.is_closing():
            self.transport.close()
            return
        self._leaving, self._received = True, 0
        self.due = time.monotonic() + self._bounds.linger_s
        self.transport.write_eof()
        self.flow.resume_reading()

    def leaving(self) -> bool:
        return self._leaving or self.transport.is_closing()

    def drop(self) -> None:
        """Close at once."""
        self._forget()
        self.transport.abort()

    def unsent(self, now: float) -> int:
        """Bytes of answers that the client has not taken; drops one that reads no more."""
        size = self.transport.get_write_buffer_size()
        taken = self._written - size
        if size == 0 or taken - self._taken >= self._bounds.least_read:
            self._taken, self.took = taken, now
        elif now - self.took > self._bounds.unread_s:
            self.drop()
            return 0
        return size


class _Answer:
    """The transport as the answer to one request sees it."""

    def __init__(self, connection: Connection) -> None:
        self.write, self.close, self.is_closing = connection.write, connection.leave, connection.leaving
