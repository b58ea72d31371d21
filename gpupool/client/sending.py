"""What both clients have in common: where the queue is, who asks, and when to ask again.

Pure but for reading the environment. This module must not send anything.
"""

from __future__ import annotations

import inspect
import os
import random
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import httpx2

from gpupool.client import local_token
from gpupool.client.errors import GpupoolClientError, NotSent, TransportError, error_of
from gpupool.client.operations import Call
from gpupool.client.values import JobSpec

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])
_H = TypeVar("_H", bound=httpx2.Client | httpx2.AsyncClient)
_UNPRINTABLE = "characters other than printable ASCII"
URL = "http://localhost:8021"
"""Where `gpupool serve` listens unless it is given another address."""
_LONGEST_PAUSE_S = 10.0
_AGAIN = frozenset({429, 502, 503, 504})
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
"""The request has not left: it may always be sent again."""
_BROKEN = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
"""The connection broke: whether the request took effect is unknown."""
AGAIN_S = 1.0
"""Before a stream of events that ended is opened again."""
QUIET_S = 45.0
"""After how long without a heartbeat (the queue sends one every 15 s) a stream of events is broken."""


@dataclass(frozen=True)
class Settings:
    """Where the queue is, and on whose behalf it is asked. What is not given is read from the environment."""

    url: str | None = None
    """Default: GPUPOOL_URL, or http://localhost:8021."""
    key: str | None = field(default=None, repr=False)
    """An API key or OIDC token; default: GPUPOOL_KEY, and at an address of this machine the token of the
    project that one stands in (`gpupool serve --dev`)."""
    tenant: str | None = None
    """Name or id; default: GPUPOOL_TENANT, or the only tenant of the credential."""
    project: str | None = None
    """Project of the jobs that name none; name or id."""
    user: str | None = None
    timeout_s: float = 30.0
    retry_s: float = 60.0
    """For how long a request is sent again where that is safe; 0 for never."""

    def options(self, transport: Any) -> dict[str, Any]:
        """The arguments of httpx2's client. Raises NotSent where one of these settings can't be used."""
        # Read from files, they end with a line break.
        url = (self.url or os.environ.get("GPUPOOL_URL") or URL).strip()
        host = _host(url)
        key = (self.key or os.environ.get("GPUPOOL_KEY") or "").strip()
        tenant = (self.tenant or os.environ.get("GPUPOOL_TENANT") or "").strip()
        if not _printable(key):
            raise NotSent(f"the key has {_UNPRINTABLE}; copy it again, and give it as `key` or GPUPOOL_KEY")
        if not _printable(tenant):
            raise NotSent(
                f"tenant {tenant!r}: has {_UNPRINTABLE}; give its name or id as in the environment file, by"
                " --tenant or GPUPOOL_TENANT"
            )
        if self.user and not _printable(self.user):
            raise NotSent(f"user {self.user!r}: has {_UNPRINTABLE}; give another name of the user")
        headers = {"Accept": "application/json", "User-Agent": "gpupool-client"}
        own = key.startswith(local_token.PREFIX)
        headers |= {"Authorization": f"Bearer {key}"} if key and not own else {}
        headers |= {"X-Tenant-Id": tenant} if tenant else {}
        headers |= {"X-User-Id": self.user} if self.user else {}
        # A proxy can't reach the loopback interface of this machine.
        local = host in ("localhost", "127.0.0.1", "::1")
        if own and not local:
            raise NotSent(f"the key is the token of a queue on this machine, and is not sent to {host}")
        return {
            "auth": _LocalToken(key) if local and (own or not key) else None,
            "base_url": url,
            "headers": headers,
            "timeout": httpx2.Timeout(self.timeout_s),
            "trust_env": not local,
            "transport": transport,
        }

    def with_project(self, spec: JobSpec) -> JobSpec:
        """`spec` for the project of these settings, unless it names its own."""
        return {"project_id": self.project, **spec} if self.project else spec


class _LocalToken(httpx2.Auth):
    """Proves to the project's own queue whose requests these are, if the project has a token: each request
    has a seal of its own, for the port that it goes to."""

    def __init__(self, token: str) -> None:
        """`token`: empty for that of the project."""
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        token = self._token or local_token.find()
        if token is not None:
            sealed = local_token.seal(token, "call", request.url.port or 80, local_token.CALL_S)
            request.headers["Authorization"] = f"Bearer {sealed}"
            if request.url.host in (
                "localhost",
                "::1",
            ):  # others may listen on [::1], the queue does not
                request.url = request.url.copy_with(host="127.0.0.1")
        yield request


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        httpx2.URL(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts.hostname
    except (ValueError, httpx2.InvalidURL):
        pass
    without_password = url.rpartition("@")[2]
    raise NotSent(f"{without_password}: not an address; give one such as {URL}")


def _printable(text: str) -> bool:
    """Whether it can be in a header."""
    return text.isascii() and text.isprintable()


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
        transport: Any = None,
    ) -> None:
        """What is not given is read from GPUPOOL_URL, GPUPOOL_KEY and GPUPOOL_TENANT. `transport` replaces
        the network in tests."""
        self._settings = Settings(url, key, tenant, project, user, timeout, retry_for)
        self._http = self._connect(**self._settings.options(transport))


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
        if not _printable(value):
            raise NotSent(f"{what}: {name} {value!r}: has {_UNPRINTABLE}; give another")
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

    def __init__(self, call: Call[Any], retry_s: float) -> None:
        self._call = call
        self._left_s = retry_s
        self._length_s = 0.2

    def pause(self, failure: httpx2.Response | httpx2.HTTPError) -> float | None:
        """Seconds to wait before the call is sent again; None where that is not safe, or too late."""
        if not may_repeat(self._call, failure) or self._left_s <= 0:
            return None
        pause = min(self._length_s * random.uniform(0.5, 1.0), self._left_s)  # noqa: S311  # spreads load
        if isinstance(failure, httpx2.Response):
            asked = pause_asked(failure.headers)
            if asked > self._left_s:
                return None
            pause = max(pause, asked)
        self._left_s -= pause
        self._length_s = min(self._length_s * 2, _LONGEST_PAUSE_S)
        return pause


def may_repeat(call: Call[Any], failure: httpx2.Response | httpx2.HTTPError) -> bool:
    """Whether sending `call` again is safe and may help."""
    if isinstance(failure, httpx2.Response):
        return failure.status_code == 429 or (call.repeatable and failure.status_code in _AGAIN)
    return isinstance(failure, _NOT_SENT) or (call.repeatable and isinstance(failure, _BROKEN))


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


def error_for(call: Call[Any], failure: httpx2.Response | httpx2.HTTPError) -> GpupoolClientError:
    """What is raised for a request that failed; the content of a response must have been read."""
    if isinstance(failure, httpx2.Response):
        return error_of(failure.status_code, failure.content)
    return TransportError(
        f"{call.method} {call.path}: no answer from the queue: {failure or type(failure).__name__}"
    )


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
