"""What every request passes first, and every answer last: is the queue called by a name of its own, does a
page of another site ask, how has the request come; and headers that no answer is without.

It looks at raw headers alone and believes none of them: a name is compared with a list, and what is not clear
is refused. Who asks is in `gpupool.queue.api.auth`.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.environment.plan.queue import RELEASE
from gpupool.queue.api import notices
from gpupool.queue.api.context import RequestContext
from gpupool.queue.api.problems import ApiProblem, answer

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
ANY_HOST = ("/healthz", "/readyz", "/metrics")
"""Kubelet and Prometheus ask for these by the address of a pod, which no list can have."""
TARGET = "gpupool.target"
"""Of the scope: what the request line asks for, where the server has said it."""
_CAME = "gpupool.came"
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_SAFE = ("GET", "HEAD", "OPTIONS")

PROXY_HEADERS = (
    "forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "x-cluster-client-ip", "x-remote-ip",
    "x-remote-addr", "fastly-client-ip", "fly-client-ip", "wl-proxy-client-ip", "cdn-loop", "x-host",
    "client-ip", "x-scheme", "x-nginx-proxy",
)  # fmt: skip
PROXY_PREFIXES = (
    "x-forwarded", "x-original-", "x-proxy", "x-envoy-", "x-azure-", "x-amz", "cf-", "proxy-",
    "x-vercel-", "x-appengine-", "x-arr-", "tailscale-", "ngrok-",
)  # fmt: skip
"""Headers that a proxy adds: RFC 7239 and RFC 9110, 7.6.3; nginx, Envoy, Cloudflare, Fastly, Fly, Azure Front
Door, AWS' balancers. A request with one has come from somewhere else than its connection."""

HEADERS: Mapping[bytes, bytes] = {
    b"cache-control": b"no-store",
    b"vary": b"Authorization, X-Api-Key, X-Tenant-Id, X-Project-Id, Cookie, Accept, Origin",
    b"x-content-type-options": b"nosniff",
    b"cross-origin-resource-policy": b"same-origin",
}
"""Of every answer that does not say otherwise itself."""
HSTS = (b"strict-transport-security", b"max-age=31536000")
"""Where the public address is https. Other names under it are not the queue's to speak for."""


@dataclass(frozen=True, slots=True)
class Came:
    """How a request has come."""

    direct: bool
    """From this machine, by no proxy that says so, and from no page of another site."""
    https: bool
    """By the public address, which is https."""
    port: int
    """Of the socket that it has come to; 0 where that is none of TCP."""


def came(request: HTTPConnection) -> Came:
    """How a request has come."""
    found: Came = request.scope[_CAME]
    return found


class Entrance:
    """Refuses requests that are for another name or from another site; adds headers to every answer."""

    def __init__(self, app: ASGIApp, context: RequestContext) -> None:
        self._app, self._context = app, context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = _Headers(scope)
        port = (scope.get("server") or ("", 0))[1] or 0
        hosts = self._hosts(port, scope["path"])
        host = headers.single("host")
        https = hosts is not None and "https" in hosts.get(host, ())

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                more = [*HEADERS.items(), *([HSTS] if https else [])]
                added = [row for row in more if row[0] not in given]
                message["headers"] = [*message["headers"], *added, *notices.headers(self._context, scope)]
            await send(message)

        try:
            _check(scope, headers, host, hosts)
        except ApiProblem as problem:
            await answer(problem, scope["path"])(scope, receive, send_with_headers)
            return
        scope[_CAME] = Came(_direct(scope, headers), https, port)
        await self._app(scope, receive, send_with_headers)

    def _hosts(self, port: int, path: str) -> Mapping[str, Collection[str]] | None:
        """Value of Host -> schemes that it is served by; None: any that is well formed, by both."""
        if self._context.dev:
            return _local(port)
        url = self._context.plan().queue.url
        return _public(url) if url and path not in ANY_HOST else None


@functools.cache
def _local(port: int) -> Mapping[str, Collection[str]]:
    """With `--dev`: names of this machine, and the port that is listened on."""
    return {f"{name}:{port}" if port != 80 else name: ("http",) for name in LOOPBACK}


@functools.lru_cache(maxsize=8)
def _public(url: str) -> Mapping[str, Collection[str]]:
    """The public address, and the names of the Service in the cluster."""
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}[parts.scheme]
    host = parts.netloc.removesuffix(f":{default}")
    service = f"{RELEASE}.{SYSTEM_NAMESPACE}"
    names = (RELEASE, service, f"{service}.svc", f"{service}.svc.cluster.local")
    return {**dict.fromkeys(names, ("http",)), host: (parts.scheme,)}


class _Headers:
    """The raw headers of a request, all values of each name; `_` in a name is `-`, as for many proxies."""

    def __init__(self, scope: Scope) -> None:
        self.values: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            known = name.decode("latin-1").lower().replace("_", "-")
            self.values.setdefault(known, []).append(value.decode("latin-1"))

    def single(self, name: str) -> str:
        """Its value; empty where there are none or several."""
        values = self.values.get(name, [])
        return values[0] if len(values) == 1 else ""

    @property
    def foreign(self) -> bool:
        """Whether the browser says that a page of another site asks."""
        return not {"same-origin", "none"}.issuperset(self.values.get("sec-fetch-site", ()))

    @property
    def proxied(self) -> bool:
        return any(name in PROXY_HEADERS or name.startswith(PROXY_PREFIXES) for name in self.values)


def _check(scope: Scope, headers: _Headers, host: str, hosts: Mapping[str, Collection[str]] | None) -> None:
    """Raises ApiProblem for a request that is for another name than ours, or from another site."""
    known = _HOST.fullmatch(host) if hosts is None else host in hosts
    if not known or not scope.get(TARGET, b"/").startswith(b"/"):
        answered = "any that is one" if hosts is None else ", ".join(hosts)
        raise ApiProblem("host-not-served", f"Host {host[:200]!r} is not served here; served: {answered}")
    schemes = ("http", "https") if hosts is None else hosts[host]
    if "origin" in headers.values:
        origin = headers.single("origin")
        if origin not in [f"{scheme}://{host}" for scheme in schemes]:
            raise ApiProblem("other-site", f"Origin {origin[:200]!r} is not that of the queue's own pages")
    if headers.foreign and scope["method"] not in _SAFE:
        raise ApiProblem("other-site", "a page of another site has sent this (Sec-Fetch-Site)")


def _direct(scope: Scope, headers: _Headers) -> bool:
    try:
        loopback = ipaddress.ip_address((scope.get("client") or ("",))[0]).is_loopback
    except ValueError:
        return False
    return loopback and not headers.proxied and not headers.foreign
