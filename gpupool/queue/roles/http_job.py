"""An HTTP job: its JSON is sent to its target, and the answer is kept, of its body the first MiB.

Only origins that the environment file lists are called, also after a redirect, and never an address that is
link-local or hands out credentials (`gpupool.reserved_addresses`), whatever a name resolves to. It must not
retry: that is the queue's.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import ThreadedResolver
from aiohttp.abc import ResolveResult
from yarl import URL

from gpupool.queue.records import Job, Outcome
from gpupool.queue.store.jobs import Result
from gpupool.reserved_addresses import forbidden
from gpupool.web_addresses import WrongAddress, allowed, literal_forbidden, origin, parsed

KEPT = 1024 * 1024
REDIRECTS = 5
CLIENT_ERRORS = range(400, 500)
WORTH_RETRYING = frozenset({408, 425, 429})


class NotAllowed(Exception):
    """The target may not be called."""


class CheckedResolver(ThreadedResolver):
    """Resolves names and refuses forbidden addresses: what is checked is what is connected to.

    `hosts`: names that stand for an address of this machine, as `serve --dev` answers for http://example.
    """

    def __init__(self, hosts: Mapping[str, tuple[str, int]]) -> None:
        super().__init__()
        self._hosts = hosts

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await super().resolve(*self._hosts.get(host, (host, port)), family)
        if refused := [one["host"] for one in found if forbidden(one["host"])]:
            raise NotAllowed(f"{host} resolves to {refused[0]}, which jobs may not reach")
        return found


@dataclass
class HttpJobs:
    """Sends HTTP jobs. `targets`: the origins that may be called at present."""

    targets: Callable[[], Collection[str]]
    hosts: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    async def send(self, job: Job, stop: asyncio.Future[Outcome]) -> tuple[Outcome, Result | None]:
        """The attempt's outcome and the target's answer; it ends early when `stop` says how."""
        headers = {"X-Gpupool-Job": job.id, "X-Gpupool-Attempt": str(job.attempt)}
        if job.group_index is not None:
            headers["X-Gpupool-Array-Index"] = str(job.group_index)
        url = str(job.request["target_url"])
        sending = asyncio.create_task(self._exchange(url, job.request.get("request_json"), headers))
        either: set[asyncio.Future[Any]] = {sending, stop}
        try:
            await asyncio.wait(either, timeout=job.run_limit_s, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                return _judged(sending)
            if stop.done():
                return stop.result(), None
            return Outcome("timeout", f"no answer within {job.run_limit_s} s", retry=False), None
        finally:
            sending.cancel()

    async def notify(self, url: str, body: Mapping[str, object], seconds: float) -> str | None:
        """Send `body` to an allowed target; why it was not taken, None where it was."""
        try:
            async with asyncio.timeout(seconds):
                result = await self._exchange(url, body, {})
        except (NotAllowed, aiohttp.ClientError, OSError, ValueError) as error:
            return str(error) or type(error).__name__
        return None if result.status < 400 else f"the target answered {result.status}"

    async def _exchange(self, address: str, body: Any, sent_headers: Mapping[str, str]) -> Result:
        method, url = "POST", self._checked(address)
        connector = aiohttp.TCPConnector(resolver=CheckedResolver(self.hosts), use_dns_cache=False)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(None)) as session:
            for _ in range(REDIRECTS + 1):
                sent = {"json": body} if method == "POST" else {}
                async with session.request(
                    method, url, headers=sent_headers, allow_redirects=False, **sent
                ) as answer:
                    target = answer.headers.get("Location")
                    if answer.status in (301, 302, 303, 307, 308) and target:
                        url = self._checked(target, url)
                        method = method if answer.status in (307, 308) else "GET"
                        continue
                    kept = await _first(answer)
                    headers = tuple((_text(name), _text(value)) for name, value in answer.headers.items())
                    return Result(answer.status, headers, kept[:KEPT], truncated=len(kept) > KEPT)
        raise NotAllowed(f"more than {REDIRECTS} redirects")

    def _checked(self, address: str, base: URL | None = None) -> URL:
        """The address as it is called; what a name in it stands for, the resolver checks."""
        try:
            url = parsed(address, base)
        except WrongAddress as error:
            raise NotAllowed(str(error)) from error
        if not allowed(url, self.targets()):
            raise NotAllowed(f"{origin(url)} is not among queue.targets of the environment file")
        if literal_forbidden(url):
            raise NotAllowed(f"{url.raw_host} is an address that jobs may not reach")
        return url


async def _first(answer: aiohttp.ClientResponse) -> bytes:
    """At most one byte more than is kept."""
    kept = b""
    async for chunk in answer.content.iter_chunked(64 * 1024):
        kept += chunk
        if len(kept) > KEPT:
            break
    return kept[: KEPT + 1]


def _text(header: str) -> str:
    """Without the surrogates that aiohttp decodes to what is not UTF-8: no database keeps them."""
    return header.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _judged(sending: asyncio.Task[Result]) -> tuple[Outcome, Result | None]:
    try:
        result = sending.result()
    except NotAllowed as error:
        return Outcome("failed", str(error), retry=False), None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, NotAllowed) else None
        if cause is not None:
            return Outcome("failed", str(cause), retry=False), None
        return Outcome("failed", f"the target can't be reached: {error}"), None
    if result.status < 400:
        return Outcome("succeeded", None, 0), result
    retry = result.status not in CLIENT_ERRORS or result.status in WORTH_RETRYING
    return Outcome("failed", f"the target answered {result.status}", retry=retry), result
