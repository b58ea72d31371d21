"""One Kubernetes API server for asynchronous code: requests, watches and logs with plain dictionaries.

For what follows a cluster or has hundreds of requests in flight: the queue, the simulated operator and the
pod runner. Everything else uses `kube_api`. The Kubernetes client library (kubernetes.aio, on aiohttp)
provides the connection, its trust and its credentials. An answer 429 is waited out as the server asks;
nothing else is retried, because only the caller knows whether a request may be sent twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

from gpupool.findings import GpupoolError
from gpupool.live.cluster.kube_api import JSON, ApiError, UnreachableError

if TYPE_CHECKING:
    import aiohttp

CONNECTIONS = 256
REQUEST_S = 30.0
WATCH_S = 300
"""How long a watch lasts before it is opened again."""
QUIET_S = 300.0
"""A stream without a byte for so long ends: its server may be half-dead, and its reader opens it again."""
LONGEST_LINE = 4 * 2**20
"""Bytes of a line that are kept; objects are smaller (etcd takes 1.5 MiB)."""
MOST_THROTTLED = 5
"""Answers 429 that one request waits out."""

Object = dict[str, Any]


class Gone(GpupoolError):
    """The server no longer has the changes since a resourceVersion: list again."""


class AsyncKubeApi:
    """One API server as one user. Made by `connect`."""

    def __init__(self, kubeconfig: Path | None, acting_as: str | None) -> None:
        self._kubeconfig = kubeconfig
        self._headers = {"Impersonate-User": acting_as} if acting_as else {}
        self._client: Any = None
        self._older: Any = None
        """The one before, for what is under way."""
        self._read: object = None
        """What the kubeconfig was like when it was read."""
        self.server = ""
        self._date: tuple[datetime, float] | None = None
        """The Date of the last answer, and when it came by this process's clock that never jumps."""

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, kubeconfig: Path | None = None, acting_as: str | None = None
    ) -> AsyncIterator[Self]:
        """The API server that a kubeconfig describes, or the pod's own. Raises GpupoolError.

        `acting_as`: a user that the credentials may impersonate.
        """
        api = cls(kubeconfig, acting_as)
        await api.renew()
        try:
            yield api
        finally:
            for client in (api._older, api._client):
                if client is not None:
                    await client.close()

    def changed(self) -> bool:
        """Whether the kubeconfig is another file than the one that was read, or was written again."""
        return self._kubeconfig is not None and _mark(self._kubeconfig) != self._read

    async def renew(self) -> None:
        """Read the kubeconfig, or the pod's service account, again: address, trust and credential, for
        what is asked from now on. Raises GpupoolError, and goes on as before, where it is not readable."""
        from kubernetes.aio import client

        self._read = _mark(self._kubeconfig) if self._kubeconfig else None
        configuration = await _configuration(self._kubeconfig)
        oldest, self._older = self._older, self._client
        self._client = client.ApiClient(configuration)
        self.server = str(configuration.host).rstrip("/")
        if oldest is not None:
            await oldest.close()

    def now(self) -> datetime:
        """The present time by the server's clock, to a second; by this machine's before the first answer."""
        if self._date is None:
            return datetime.now(UTC)
        at, came = self._date
        return at + timedelta(seconds=time.monotonic() - came)

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
    ) -> Object:
        """One request; the parsed answer. Raises ApiError from 400 on, UnreachableError without an answer."""
        answer = await self._send(method, path, query, body, content_type, REQUEST_S)
        try:
            text = await answer.read()
        except Exception as error:
            raise UnreachableError(f"{self.server}: {error or type(error).__name__}") from error
        parsed: Object = _parsed(text)
        if answer.status >= 400:
            raise ApiError(answer.status, parsed.get("reason") or "", parsed.get("message") or text.decode())
        return parsed

    async def request_by_present_file(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
    ) -> Object:
        """`request`, by the kubeconfig as it is now: for what does not depend on which cluster it is."""
        if self.changed():
            await self.renew()
        return await self.request(method, path, query, body, content_type)

    async def list_all(self, path: str, query: Mapping[str, str] | None = None) -> tuple[list[Object], str]:
        """All objects of a collection, 500 at a time, and the resourceVersion to watch from."""
        items: list[Object] = []
        more = ""
        while True:
            page = {**(query or {}), "limit": "500", **({"continue": more} if more else {})}
            answer = await self.request("GET", path, page)
            about = answer.get("metadata") or {}
            if "resourceVersion" not in about:
                raise UnreachableError(f"{self.server}{path}: the answer is not a list of Kubernetes")
            items += answer.get("items") or []
            more = about.get("continue") or ""
            if not more:
                return items, str(about["resourceVersion"])

    async def watch(
        self, path: str, version: str, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, Object]]:
        """(ADDED, MODIFIED, DELETED or BOOKMARK, object) from after a resourceVersion until the server ends
        the watch. Raises Gone where the version is too old, UnreachableError where the watch is cut."""
        given = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(WATCH_S)}
        answer = await self._send(
            "GET", path, {**(query or {}), **given, "allowWatchBookmarks": "true"}, None, "", None
        )
        try:
            if answer.status == 410:
                raise Gone(path)
            if answer.status >= 400:
                parsed = _parsed(await answer.read())
                raise ApiError(answer.status, parsed.get("reason") or "", parsed.get("message") or "")
            async for line in lines(answer):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise Gone(event["object"].get("message") or path)
                yield event["type"], event["object"]
        except (TimeoutError, OSError, ValueError) as error:
            raise UnreachableError(f"{self.server}{path}: {error or type(error).__name__}") from error
        finally:
            answer.close()

    async def log(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Lines of a container's log; with follow=true until the container ends, or has been silent for
        long. Raises ApiError, UnreachableError."""
        answer = await self._send("GET", path, query, None, "", None)
        try:
            if answer.status >= 400:
                parsed = _parsed(await answer.read())
                raise ApiError(answer.status, parsed.get("reason") or "", parsed.get("message") or "")
            async for line in lines(answer):
                yield line
        except (TimeoutError, OSError) as error:
            raise UnreachableError(f"{self.server}{path}: {error or type(error).__name__}") from error
        finally:
            answer.close()

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Any,
        content_type: str,
        seconds: float | None,
    ) -> aiohttp.ClientResponse:
        import aiohttp
        from kubernetes.aio.config import ConfigException

        url = f"{self.server}{path}" + (f"?{urlencode(query)}" if query else "")
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=10)
        waited = 0
        while True:
            headers = {"Accept": JSON, "Content-Type": content_type, **self._headers}
            try:
                await self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
                answer = await self._client.rest_client.request(
                    method, url, headers=headers, body=body, _request_timeout=timeout
                )
            except (aiohttp.ClientError, ConfigException, TimeoutError, OSError) as error:
                raise UnreachableError(f"{self.server}: {error or type(error).__name__}") from error
            found: aiohttp.ClientResponse = answer.response
            with contextlib.suppress(KeyError, ValueError):
                at = parsedate_to_datetime(found.headers["Date"]).replace(tzinfo=UTC)  # always GMT
                self._date = at, time.monotonic()
            if found.status != 429 or waited == MOST_THROTTLED:
                return found
            waited += 1
            found.release()
            await asyncio.sleep(_retry_after(found))


async def lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Whole lines as they come, the longest cut off; until the end, or until nothing comes for `QUIET_S`."""
    import aiohttp

    rest = b""
    try:
        while True:
            async with asyncio.timeout(QUIET_S):
                chunk = await answer.content.readany()
            if not chunk:
                break
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                if line:
                    yield line
            rest = rest[:LONGEST_LINE]
    except TimeoutError:
        return
    except aiohttp.ClientError as error:
        raise OSError(str(error)) from error
    if rest:
        yield rest


def _mark(path: Path) -> tuple[int, int, int] | None:
    """Differs once a file has been written again; None where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)


async def _configuration(kubeconfig: Path | None) -> Any:
    """Address, trust and credential of a kubeconfig, or of the pod. Raises GpupoolError."""
    from kubernetes.aio import client, config

    configuration = client.Configuration()
    configuration.connection_pool_maxsize = CONNECTIONS
    # Never. It reads False as a number of times, 0, which its count never meets.
    configuration.retries = None
    try:
        if kubeconfig is None:
            config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                str(kubeconfig), client_configuration=configuration
            )
    except (config.ConfigException, OSError, ValueError, KeyError, TypeError) as error:
        raise GpupoolError(f"{kubeconfig or 'the service account of this pod'}: {error}") from error
    # Once, here: the library reads the environment, and ~/.netrc, in a thread for every request.
    configuration.proxy = configuration.proxy or _proxy(str(configuration.host))
    configuration.client_session_kwargs = {"trust_env": False}
    return configuration


def _proxy(server: str) -> str | None:
    """The proxy that the environment has for a server; none has a way back to this machine."""
    address = urlsplit(server)
    host = address.hostname or ""
    if host in ("127.0.0.1", "::1", "localhost") or proxy_bypass(host):
        return None
    return getproxies().get(address.scheme)


def _parsed(text: bytes) -> Object:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _retry_after(answer: aiohttp.ClientResponse) -> float:
    """Seconds that the server asks for; one where it does not say."""
    given = answer.headers.get("Retry-After", "1")
    return min(30.0, float(given)) if given.isdigit() else 1.0
