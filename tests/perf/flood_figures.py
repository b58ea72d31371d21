"""How long others wait, and how much memory it takes, while somebody floods the queue: the real service on a
real PostgreSQL. The floods (`tests.perf.floods`) run on the same two cores, so that times are upper bounds.

python -m tests.perf.flood_figures [FLOOD...]    prints each; `make bench` has the worst of them
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import psutil
import psycopg
from cryptography.hazmat.primitives.asymmetric import ec

from gpupool.cli.output import print_table
from gpupool.local.ports import free_port
from gpupool.queue.store import keys
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.store.migrate import migrate
from tests.perf.floods import FLOODS, JOBS
from tests.perf.queue_figures import environment, served

Figure = tuple[str, float]
SECONDS = 5.0
"""Of each flood that are measured."""
REFETCHED_S = 61.0
"""After how long the queue may ask the provider for its keys again."""
WAITING = 300
"""Jobs that wait, of as many tenants, each with 20 KiB."""


@dataclass
class Measured:
    """What a victim saw during one flood; seconds, and MiB of the service."""

    requests: list[float] = field(default_factory=list)
    checks: list[float] = field(default_factory=list)
    failed: int = 0
    memory: float = 0.0


def floods(folder: Path) -> Iterator[Figure]:
    """The worst of all floods."""
    seen = measured(folder)
    alone = seen.pop("alone")
    yield (
        "flood-p50",
        max(_quantile(one.requests, 50) for one in seen.values()) / _quantile(alone.requests, 50),
    )
    yield "flood-p99", max(_quantile(one.requests, 99) for one in seen.values()) * 1000
    yield "flood-healthz-p99", max(_quantile(one.checks, 99) for one in seen.values()) * 1000
    yield "flood-failed", float(sum(one.failed for one in seen.values()))
    yield "flood-memory", max(one.memory for one in seen.values()) - alone.memory


def measured(folder: Path, names: Sequence[str] = tuple(FLOODS)) -> dict[str, Measured]:
    """Without a flood ("alone"), and under each."""
    data = Path(tempfile.mkdtemp(prefix="gpupool-flood-bench-"))
    server = Embedded(data, {"shared_buffers": "128MB"})
    try:
        with psycopg.connect(server.start(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE floods")
        url = server.url("floods")
        migrate(url)
        return asyncio.run(_measured(folder, url, names))
    finally:
        server.stop()
        shutil.rmtree(data, ignore_errors=True)


async def _measured(folder: Path, url: str, names: Sequence[str]) -> dict[str, Measured]:
    async with Database.open(url) as db:
        made = [
            (await keys.create(db, name, ["*"], ["jobs:write", "jobs:read"], None))[1]
            for name in ("victim", "flood")
        ]
    async with _Provider().running() as provider:
        auth = {"issuer": provider.issuer, "audience": "gpupool"}
        path, port = environment(folder, auth=auth), free_port()
        with served(path, url, port, "api") as process:
            base = f"http://127.0.0.1:{port}"
            async with aiohttp.ClientSession(base, timeout=aiohttp.ClientTimeout(total=30)) as session:
                jobs = await _fill(session, made[0])
                given = {"port": port, "key": made[1], "token": provider.token("unknown"), "jobs": jobs}
                known = provider.token("known")
                await _ask(session, JOBS, known)
                learnt = time.monotonic()
                provider.drips = True
                seen = {"alone": await _victim(session, process, made[0])}
                for name in names:
                    credential = made[0]
                    if name == "kids":
                        credential = known
                        await asyncio.sleep(max(0.0, learnt + REFETCHED_S - time.monotonic()))
                    print(f"flood: {name} ...", file=sys.stderr, flush=True)
                    async with _flooding(name, given):
                        seen[name] = await _victim(session, process, credential)
                    await _quiet(session, process)
                return seen


async def _fill(session: aiohttp.ClientSession, key: str) -> list[str]:
    """Jobs that wait: nothing dispatches them."""
    ids = []
    body = {"gpu_pool_requested": "pool-0", "target_url": "http://example/x", "request_json": "x" * 20_000}
    for number in range(WAITING):
        headers = {"Authorization": f"Bearer {key}", "X-Tenant-Id": f"tenant-{number}"}
        async with session.post(JOBS, json=body, headers=headers) as answer:
            assert answer.status == 201, await answer.text()
            ids.append((await answer.json())["id"])
    return ids[:48]


@asynccontextmanager
async def _flooding(name: str, given: dict[str, Any]) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.perf.floods", name,
        stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(json.dumps(given).encode())
    process.stdin.close()
    await asyncio.sleep(1.5)
    try:
        assert process.returncode is None, f"the flood {name} has ended"
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _victim(session: aiohttp.ClientSession, process: psutil.Process, credential: str) -> Measured:
    """Light requests and checks, one of each at a time, for some seconds."""
    seen, end = Measured(), time.monotonic() + SECONDS

    async def ask(path: str, credential: str | None, taken: list[float]) -> None:
        while time.monotonic() < end:
            began = time.perf_counter()
            try:
                fine = await _ask(session, path, credential) == 200
            except (aiohttp.ClientError, TimeoutError):
                fine = False
            taken.append(time.perf_counter() - began)
            seen.failed += not fine
            await asyncio.sleep(0.01)

    async def watch() -> None:
        while time.monotonic() < end:
            seen.memory = max(seen.memory, process.memory_info().rss / 2**20)
            await asyncio.sleep(0.05)

    await asyncio.gather(
        ask(f"{JOBS}?limit=1", credential, seen.requests), ask("/healthz", None, seen.checks), watch()
    )
    return seen


async def _ask(session: aiohttp.ClientSession, path: str, credential: str | None) -> int:
    headers = {"Authorization": f"Bearer {credential}"} if credential else {}
    async with session.get(path, headers=headers) as answer:
        await answer.read()
        return answer.status


async def _quiet(session: aiohttp.ClientSession, process: psutil.Process) -> None:
    """Wait until the service has done what the flood left it to do."""
    for _ in range(60):
        before = sum(process.cpu_times()[:2])
        await asyncio.sleep(0.5)
        if sum(process.cpu_times()[:2]) - before < 0.1:
            break
    await _ask(session, "/healthz", None)


class _Provider:
    """An OIDC provider with one key, whose answers come in single bytes once it `drips`."""

    def __init__(self) -> None:
        self.issuer = ""
        self.drips = False
        self._key = ec.generate_private_key(ec.SECP256R1())

    def token(self, kid: str) -> str:
        claims = {"iss": self.issuer, "aud": "gpupool", "sub": "ada", "exp": time.time() + 3600, "groups": []}
        return jwt.encode(claims, self._key, "ES256", headers={"kid": kid})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[_Provider]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.issuer = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield self
        server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        algorithm = jwt.get_algorithm_by_name("ES256")
        public = dict(algorithm.to_jwk(self._key.public_key(), as_dict=True)) | {"kid": "known"}
        about = {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}
        body = json.dumps({"keys": [public]} if b"/keys" in asked else about).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        try:
            for byte in body if self.drips else ():
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(1)
            if not self.drips:
                writer.write(body)
                await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


def _quantile(values: list[float], percent: int) -> float:
    if percent == 50:
        return statistics.median(values)
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gpupool-bench-") as folder:
        seen = measured(Path(folder), sys.argv[1:] or tuple(FLOODS))
    titles = ("flood", "requests", "p50 ms", "p99 ms", "healthz p50", "healthz p99", "failed", "MiB")
    rows = [
        (
            name,
            str(len(one.requests)),
            *(f"{_quantile(one.requests, percent) * 1000:.1f}" for percent in (50, 99)),
            *(f"{_quantile(one.checks, percent) * 1000:.1f}" for percent in (50, 99)),
            str(one.failed),
            f"{one.memory:.0f}",
        )
        for name, one in seen.items()
    ]
    print_table(titles, rows, right=titles[1:])


if __name__ == "__main__":
    main()
