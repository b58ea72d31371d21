"""What both clients have in common about one request: when it is sent again, and what is raised in the end.

An outage of the queue is said through the logger `gpupool.client`: Python shows its warnings on stderr unless
the program has handlers of its own.
"""

from __future__ import annotations

import inspect
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx2

from .errors import (
    ApiError,
    GpupoolClientError,
    LostContact,
    NotReached,
    NotSent,
    TransportError,
    error_of,
    shown,
    without_users,
)
from .event_stream import Frame, FrameReader, Lines
from .operations import EVENT_STREAM, KEY, Call
from .settings import UNPRINTABLE, Settings, printable

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])
Failure = httpx2.Response | httpx2.HTTPError
_LONGEST_PAUSE_S = 10.0
_AGAIN = frozenset({408, 425, 429, 502, 503, 504, 520, 521, 522, 523, 524})
"""Also those of Cloudflare, for a server that does not answer (520 to 524)."""
_REFUSED = frozenset({425, 429})
"""Nothing was done, whatever the request."""
_BEFORE = frozenset({401, 403, 429})
"""Refused before the queue has looked at what the request is: they tell nothing of a try before."""
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
"""The request has not left: it may always be sent again."""
_BROKEN = (
    httpx2.ReadError, httpx2.ReadTimeout, httpx2.WriteError, httpx2.WriteTimeout, httpx2.CloseError,
    httpx2.RemoteProtocolError, httpx2.DecodingError,
)  # fmt: skip
"""The connection broke, or nothing came: whether the request took effect is unknown."""
AGAIN_S = 1.0
"""Before a stream that has broken off is opened again."""
QUIET_S = 35.0
"""After how long without a heartbeat (the queue sends one every 10 s) a stream is broken."""
SAID_S = 5.0
"""Shorter outages are not said."""
log = logging.getLogger("gpupool.client")


def documented(method: _F, by: Callable[..., Any], given: int = 0) -> _F:
    """`method`, for `help` as `by` is, but for the first parameters, which the method gives it."""
    method.__doc__ = by.__doc__
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    shown = [own, *list(inspect.signature(by).parameters.values())[given:]]
    vars(method)["__signature__"] = inspect.Signature(shown)
    return method


def built(http: httpx2.Client | httpx2.AsyncClient, call: Call[Any], timeout: Any) -> httpx2.Request:
    """The request for `call`. Raises NotSent where a value of it can't be sent."""
    what = f"{call.method} {call.path}"
    for name, value in (call.headers or {}).items():
        if not printable(value):
            raise NotSent(f"{what}: {name} {value!r}: has {UNPRINTABLE}; give another")
    try:
        return http.build_request(
            call.method,
            call.path,
            params=call.params,
            headers=call.headers,
            json=call.json,
            timeout=timeout,
        )
    except (ValueError, TypeError, RecursionError, httpx2.InvalidURL) as error:
        raise NotSent(f"{what}: a value can't be sent: {error}; give another") from error


class Retries:
    """When one call is sent again, and when no more."""

    def __init__(self, call: Call[Any], settings: Settings, silent_since: float | None = None) -> None:
        """`silent_since`: when the queue was last heard (time.monotonic()), where a stream goes on."""
        self._call, self._settings = call, settings
        self._left_s = settings.retry_s
        self._length_s = 0.2
        self._since = time.monotonic()
        self._began = self._since if silent_since is None else silent_since
        self._said = False
        self.again = False
        """Whether it was tried more than once."""
        self.sent = False
        """Whether it has left in any try, so that it may have taken effect."""

    @property
    def asked_s(self) -> float:
        """For how long an answer has been waited for."""
        return time.monotonic() - self._began

    def pause(self, failure: Failure) -> float | None:
        """Seconds to wait before the call is sent again; None where that is not safe, or too late."""
        now = time.monotonic()
        self._left_s -= max(0.0, now - self._since)
        self.sent = self.sent or _may_have_acted(failure)
        late = not self.sent and self.asked_s >= self._settings.connect_s
        if late or self._left_s <= 0 or not may_repeat(self._call, failure, self._settings.waits):
            return None
        pause = min(self._length_s * random.uniform(0.5, 1.0), self._left_s)  # noqa: S311  # spreads load
        if isinstance(failure, httpx2.Response):
            wanted = pause_asked(failure.headers)
            if wanted > self._left_s:
                return None
            pause = max(pause, wanted)
        self._left_s -= pause
        self._length_s = min(self._length_s * 2, _LONGEST_PAUSE_S)
        self._since = now + pause
        self.again = True
        self.say(failure, pause)
        return pause

    def say(self, failure: Failure, pause: float = 0.0) -> None:
        """That there is no answer, once, where it has been so for long."""
        if not self._said and self.asked_s + pause > SAID_S:
            self._said = True
            log.warning("no answer from %s: %s; asking again", self._settings.address, words(failure))

    def error(self, failure: Failure) -> GpupoolClientError:
        """What is raised where it is not sent again."""
        return error_for(self._call, failure, self._settings, self.asked_s, self.sent)

    def answered(self) -> None:
        """There is an answer."""
        if self._said:
            log.info("%s answers again after %.0f s", self._settings.address, self.asked_s)


class Reading:
    """One stream, over as many connections as that takes."""

    def __init__(self, position: int | None, settings: Settings) -> None:
        self.position = position
        """After what it has been read."""
        self._settings = settings
        self.heard: float | None = None
        """When the queue was last heard, by time.monotonic()."""
        self._lines, self._reader = Lines(), FrameReader()

    def begins(self, call: Call[Any], response: httpx2.Response) -> None:
        """Read this answer next. Raises TransportError where the first is no stream of the queue's, and
        LostContact where no later one was for as long as one waits."""
        self._lines, self._reader = Lines(), FrameReader(self.position)
        now = time.monotonic()
        if response.headers.get("Content-Type", "").startswith(EVENT_STREAM):
            self.heard = now if self.heard is None else self.heard
        elif self.heard is None:
            raise TransportError(f"{call.method} {call.path}: the answer is not one of the queue's streams")
        if now - self.heard > self._settings.lost_s:
            failure = httpx2.RemoteProtocolError("streams end at once")
            raise error_for(call, failure, self._settings, now - self.heard)

    def frames(self, piece: bytes) -> Iterator[Frame]:
        """What `piece` completes. Of a frame that has been taken, the position is passed."""
        for line in self._lines.feed(piece):
            frame = self._reader.feed(line)
            self.position = self._reader.position
            if not line:
                self.heard = time.monotonic()
            if frame is not None:
                yield frame


def _may_have_acted(failure: Failure) -> bool:
    if isinstance(failure, httpx2.Response):
        return failure.status_code == 408 or failure.status_code >= 500
    return not isinstance(failure, _NOT_SENT)


def may_repeat(call: Call[Any], failure: Failure, waits: bool = False) -> bool:
    """Whether sending `call` again is safe and may help. `waits`: for one who outlasts the queue's errors."""
    if isinstance(failure, httpx2.Response):
        passing = failure.status_code in _AGAIN or (waits and failure.status_code >= 500)
        return failure.status_code in _REFUSED or (call.repeatable and passing)
    return isinstance(failure, _NOT_SENT) or (call.repeatable and isinstance(failure, _BROKEN))


def half(response: httpx2.Response) -> httpx2.HTTPError | None:
    """The failure of an answer that may have ended before its end: whose length nothing tells (HTTP/1.0), and
    which is not JSON as a whole."""
    if not {"content-length", "transfer-encoding"}.isdisjoint(response.headers):
        return None
    try:
        response.json()
    except ValueError:
        return httpx2.RemoteProtocolError("half an answer")
    return None


def pause_asked(headers: Mapping[str, str], now: datetime | None = None) -> float:
    """Seconds that Retry-After asks for, a number or a date; 0 where it asks for none."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return 0.0
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())


def error_for(
    call: Call[Any], failure: Failure, settings: Settings, asked_s: float, sent: bool = False
) -> GpupoolClientError:
    """What is raised for a request that failed; the content of a response must have been read. `sent`:
    whether a try before may have taken effect."""
    error: GpupoolClientError
    if isinstance(failure, httpx2.Response):
        error = _error_of(failure)
        error.no_answer = error.no_answer or (sent and failure.status_code in _BEFORE)
    else:
        error = _lost(call, failure, settings, asked_s, sent)
    error.idempotency_key = call.headers.get(KEY)
    return error


def _error_of(response: httpx2.Response) -> ApiError:
    if response.is_redirect:
        place = response.headers.get("Location", "")
        title = f"HTTP {response.status_code}"
        detail = f"the queue is at another address, {without_users(place)}; give that one as GPUPOOL_URL"
        return ApiError(response.status_code, {"title": title, "detail": detail})
    return error_of(response.status_code, response.content)


def _lost(
    call: Call[Any], failure: httpx2.HTTPError, settings: Settings, asked_s: float, sent: bool
) -> LostContact:
    kind = NotReached if isinstance(failure, _NOT_SENT) and not sent else LostContact
    error = kind(
        f"{call.method} {call.path}: no answer from the queue: {words(failure)}; {settings.address} was asked"
        f" for {asked_s:.0f} s"
    )
    error.address = settings.address
    if isinstance(error, NotReached):
        error.refused, error.loopback = _is_refused(failure), settings.loopback
    return error


def _is_refused(failure: BaseException | None) -> bool:
    while failure is not None and not isinstance(failure, ConnectionRefusedError):
        failure = failure.__cause__ or failure.__context__
    return failure is not None


def words(failure: Failure) -> str:
    """Why there was no answer."""
    if isinstance(failure, httpx2.Response):
        return str(_error_of(failure))
    if isinstance(failure, httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return "no connection in time"
    if isinstance(failure, httpx2.TimeoutException):
        return "nothing came in time"
    return shown(without_users(str(failure))) or type(failure).__name__


def parsed(call: Call[_T], response: httpx2.Response) -> _T:
    """What the answer means. Raises TransportError where it is not the queue's."""
    try:
        return call.parse(response.json())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"{call.method} {call.path}: the answer is not one of the queue's: {error!r}"
        raise TransportError(message) from error


def notices(response: httpx2.Response) -> tuple[str, ...]:
    """What the queue says of itself with an answer, as plain text: it may be from another server."""
    given = response.headers.get_list("Gpupool-Notice")
    return tuple("".join(char for char in notice if char.isprintable()) for notice in given)


def wait_pauses() -> Iterator[float]:
    """Seconds between two looks at a job: short at first, two at most."""
    length = 0.2
    while True:
        yield length
        length = min(length * 1.5, 2.0)
