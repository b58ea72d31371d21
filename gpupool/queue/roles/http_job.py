"""An HTTP job: its JSON is sent to its target, and the answer is kept, of its body the first MiB.

Only origins that the environment file lists are called, also after a redirect, and never an address that is
link-local or hands out credentials (`gpupool.environment.reserved_addresses`), whatever a name resolves to.
It must not retry: that is the queue's.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import aiohttp
from aiohttp import ThreadedResolver
from aiohttp.abc import ResolveResult
from yarl import URL

from gpupool.environment.reserved_addresses import forbidden
from gpupool.environment.web_addresses import WrongAddress, allowed, literal_forbidden, origin, parsed
from gpupool.queue.records import Job, Outcome
from gpupool.queue.roles.http_answers import FOLLOWED, Failure, NotAllowed, failure_by, failure_of
from gpupool.queue.roles.leader import utc_now
from gpupool.queue.store.jobs import HttpAnswer

KEPT = 1024 * 1024
REDIRECTS = 5
CONNECT_S = 30.0
"""A target that takes no connection for so long can't be reached."""


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
    now: Callable[[], datetime] = utc_now

    async def send(self, job: Job, stop: asyncio.Future[Outcome]) -> tuple[Outcome, HttpAnswer | None]:
        """The attempt's outcome and the target's answer; it ends early when `stop` says how."""
        headers = {"X-Gpupool-Job": job.id, "X-Gpupool-Attempt": str(job.attempt)}
        if job.group_index is not None:
            headers["X-Gpupool-Array-Index"] = str(job.group_index)
        url = str(job.request["target_url"])
        sending = asyncio.create_task(self._exchange(url, job.request.get("request_json"), headers))
        either: set[asyncio.Future[Any]] = {sending, stop}
        try:
            await asyncio.wait(either, timeout=job.attempt_limit_s, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                return _judged(sending, self.now())
            if stop.done():
                return stop.result(), None
            return Outcome("timeout", f"no answer within {job.attempt_limit_s} s", retry=False), None
        finally:
            sending.cancel()

    async def notify(self, url: str, body: Mapping[str, object], seconds: float) -> Failure | None:
        """Send `body` to an allowed target; why it was not taken, None where it was."""
        try:
            async with asyncio.timeout(seconds):
                result = await self._exchange(url, body, {}, seconds / 2)
        except (NotAllowed, aiohttp.ClientError, OSError, ValueError) as error:
            return failure_by(error)
        return failure_of(result.status, dict(result.headers), self.now())

    async def _exchange(
        self, address: str, body: Any, sent_headers: Mapping[str, str], connect_s: float = CONNECT_S
    ) -> HttpAnswer:
        url = self._checked(address)
        connector = aiohttp.TCPConnector(resolver=CheckedResolver(self.hosts), use_dns_cache=False)
        timeout = aiohttp.ClientTimeout(None, sock_connect=connect_s)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            for _ in range(REDIRECTS + 1):
                async with session.post(
                    url, headers=sent_headers, allow_redirects=False, json=body
                ) as answer:
                    target = answer.headers.get("Location")
                    if answer.status in FOLLOWED and target:
                        url = self._checked(target, url)
                        continue
                    kept = await _first(answer)
                    headers = tuple((_text(name), _text(value)) for name, value in answer.headers.items())
                    return HttpAnswer(answer.status, headers, kept[:KEPT], truncated=len(kept) > KEPT)
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


def _judged(sending: asyncio.Task[HttpAnswer], now: datetime) -> tuple[Outcome, HttpAnswer | None]:
    try:
        result = sending.result()
    except (NotAllowed, aiohttp.ClientError, OSError, ValueError) as error:
        failure = failure_by(error)
        return Outcome("failed", failure.reason, retry=failure.retry), None
    failed = failure_of(result.status, dict(result.headers), now)
    if failed is None:
        return Outcome("succeeded", None, 0), result
    return Outcome("failed", failed.reason, retry=failed.retry, pause_s=failed.pause_s), result
