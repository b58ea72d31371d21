"""Where the queue is, who asks, and for how long: arguments of the clients, or the environment.

Pure but for reading the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2

from . import local_token
from .errors import AT, NotSent
from .job_spec import JobSpec

UNPRINTABLE = "characters other than printable ASCII"
URL = "http://localhost:8021"
"""Where `gpupool serve` listens unless it is given another address."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


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
    """For a connection, and for each part of an answer."""
    retry_s: float = 60.0
    """For how long a request is sent again where that is safe; 0 for never."""
    connect_s: float = 60.0
    """The same, where there was no connection yet."""
    lost_s: float = 3600.0
    """For how long who waits for a job goes on asking a queue that does not answer."""
    waits: bool = False
    """Whether these are of one who waits for a job."""

    @property
    def base_url(self) -> str:
        """The address as it is asked, which may have a password in it."""
        return (self.url or os.environ.get("GPUPOOL_URL") or URL).strip()  # a file ends with a line break

    @property
    def address(self) -> str:
        """The address as it is shown."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    @property
    def loopback(self) -> bool:
        """Whether that is an address of this machine."""
        return _host(self.base_url) in _LOOPBACK

    def options(self, transport: Any) -> dict[str, Any]:
        """The arguments of httpx2's client. Raises NotSent where one of these settings can't be used."""
        url = self.base_url
        host = _host(url)
        # Read from files, they end with a line break.
        key = (self.key or os.environ.get("GPUPOOL_KEY") or "").strip()
        tenant = (self.tenant or os.environ.get("GPUPOOL_TENANT") or "").strip()
        if not printable(key):
            raise NotSent(f"the key has {UNPRINTABLE}; copy it again, and give it as `key` or GPUPOOL_KEY")
        if not printable(tenant):
            raise NotSent(
                f"tenant {tenant!r}: has {UNPRINTABLE}; give its name or id as in the environment file, by"
                " --tenant or GPUPOOL_TENANT"
            )
        if self.user and not printable(self.user):
            raise NotSent(f"user {self.user!r}: has {UNPRINTABLE}; give another name of the user")
        headers = {"Accept": "application/json", "User-Agent": "gpupool-client"}
        own = key.startswith(local_token.PREFIX)
        headers |= {"Authorization": f"Bearer {key}"} if key and not own else {}
        headers |= {"X-Tenant-Id": tenant} if tenant else {}
        headers |= {"X-User-Id": self.user} if self.user else {}
        local = self.loopback  # a proxy can't reach that interface of this machine
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
            if request.url.host in _LOOPBACK:  # others may listen on [::1], the queue does not
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
    without_password = re.split(f"(?:{AT})", url)[-1]
    raise NotSent(f"{without_password}: not an address; give one such as {URL}")


def printable(text: str) -> bool:
    """Whether it can be in a header."""
    return text.isascii() and text.isprintable()
