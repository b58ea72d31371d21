"""What somebody may send to the queue so that others wait: each flood is a function of FLOODS, and runs in a
process of its own. Only loopback addresses, and bounded in count.

python -m tests.perf.floods FLOOD PORT    with what a flood needs as JSON on standard input
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

MIB = 2**20
JOBS = "/api/v1/gpu-jobs"


@dataclass(frozen=True)
class Given:
    """What floods are made with."""

    port: int
    key: str
    """A valid key of the one who floods."""
    token: str
    """Well-formed, and signed with a key that the provider does not have."""
    jobs: list[str]
    """Ids of jobs that wait."""


@asynccontextmanager
async def _connections(given: Given, count: int) -> AsyncIterator[list[asyncio.StreamWriter]]:
    opened = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", given.port) for _ in range(count)))
    yield [writer for _, writer in opened]


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(OSError):
        writer.write(data)
        await writer.drain()


def _head(method: str, path: str, *more: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *more, "", ""]).encode()


async def bodies(given: Given) -> None:
    """500 bodies of almost 1 MiB that do not end, without a credential."""
    head = _head("POST", JOBS, "Content-Type: application/json", f"Content-Length: {MIB}")
    async with _connections(given, 500) as writers:
        await asyncio.gather(*(_send(writer, head + b'"' + b"x" * (MIB - 1024)) for writer in writers))
        await asyncio.sleep(60)


async def headers(given: Given) -> None:
    """500 headers that do not end."""
    async with _connections(given, 500) as writers:
        begin = _head("GET", "/", f"X-Long: {'x' * 16_000}")[:-2] + b"X-More: "
        await asyncio.gather(*(_send(writer, begin) for writer in writers))
        for _ in range(60):
            await asyncio.gather(*(_send(writer, b"x") for writer in writers))
            await asyncio.sleep(1)


async def _repeated(given: Given, callers: int, request: Callable[[int], dict[str, Any]]) -> None:
    """So many callers, each of whom asks again as soon as it is answered."""
    numbers = itertools.count()
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{given.port}", timeout=timeout) as session:

        async def ask() -> None:
            while True:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.request(**request(next(numbers))) as response:
                        await response.read()

        await asyncio.gather(*(ask() for _ in range(callers)))


def _authorised(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}", "Content-Type": "application/json"}


async def brackets(given: Given) -> None:
    """4 callers with 1 MiB of brackets and no credential."""
    sent = {"method": "POST", "url": JOBS, "data": b"[]" * (MIB // 2), "headers": _authorised("")}
    await _repeated(given, 4, lambda _: sent)


async def fields(given: Given) -> None:
    """4 callers with a valid key and 90,000 unknown fields."""
    body = json.dumps({f"{number:x}": 1 for number in range(90_000)}, separators=(",", ":")).encode()
    await _repeated(
        given, 4, lambda _: {"method": "POST", "url": JOBS, "data": body, "headers": _authorised(given.key)}
    )


async def kids(given: Given) -> None:
    """8 callers with a token of an unknown key, while the provider drips."""
    await _repeated(given, 8, lambda _: {"method": "GET", "url": JOBS, "headers": _authorised(given.token)})


async def keys(given: Given) -> None:
    """16 callers with keys that there are not, each another."""

    def request(number: int) -> dict[str, Any]:
        wrong = f"gpk_{number:012}_{secrets.token_urlsafe(32)}"
        return {"method": "GET", "url": JOBS, "headers": _authorised(wrong)}

    await _repeated(given, 16, request)


async def why(given: Given) -> None:
    """48 callers with one key who ask why jobs wait."""

    def request(number: int) -> dict[str, Any]:
        job = given.jobs[number % len(given.jobs)]
        return {"method": "GET", "url": f"{JOBS}/{job}/why", "headers": _authorised(given.key)}

    await _repeated(given, 48, request)


async def streams(given: Given) -> None:
    """1,000 streams of one key."""
    head = _head("GET", "/api/v1/events", f"Authorization: Bearer {given.key}")
    async with _connections(given, 1000) as writers:
        await asyncio.gather(*(_send(writer, head) for writer in writers))
        await asyncio.sleep(60)


async def pipelines(given: Given) -> None:
    """64 connections with thousands of requests before the answer to the first."""
    async with _connections(given, 64) as writers:
        await asyncio.gather(*(_send(writer, _head("GET", "/healthz") * 8000) for writer in writers))
        await asyncio.sleep(60)


async def unread(given: Given) -> None:
    """64 connections of one key that read nothing of the large pages that they ask for."""
    head = _head("GET", f"{JOBS}?limit=200", f"Authorization: Bearer {given.key}")
    async with _connections(given, 64) as writers:
        for writer in writers:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.gather(*(_send(writer, head) for writer in writers))
        await asyncio.sleep(60)


FLOODS: dict[str, Callable[[Given], Awaitable[None]]] = {
    flood.__name__: flood
    for flood in (bodies, headers, brackets, fields, keys, why, streams, pipelines, unread, kids)
}


if __name__ == "__main__":
    asyncio.run(FLOODS[sys.argv[1]](Given(**json.load(sys.stdin))))  # type: ignore[arg-type]
