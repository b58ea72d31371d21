"""The job queue under load: a real PostgreSQL (synchronous, as in production), the real service's processes.

The load runs on the same two cores, so that times are upper bounds.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import psycopg
from prometheus_client import generate_latest

from gpupool.environment import shipped
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import load
from gpupool.local.ports import free_port
from gpupool.queue.api.figures import figures
from gpupool.queue.domain.current import current
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import Level, NewJob, Offer, Outcome, new_id
from gpupool.queue.roles.dispatcher import Dispatcher
from gpupool.queue.roles.leader import Leadership
from gpupool.queue.roles.policies import policies_of
from gpupool.queue.service import COLLECTED
from gpupool.queue.store import attempts, jobs, keys, plans, spending
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.store.migrate import migrate
from gpupool.queue.store.snapshot import take_snapshot
from tests.environment_files import environment_data

Figure = tuple[str, float]
TENANTS = 1000
PENDING = 100_000
ARCHIVED = 1_000_000
REQUESTS = 4000
CONNECTIONS = 16
GPU = "nvidia.com/gpu"


def queue(folder: Path) -> Iterator[Figure]:
    """Every figure of the queue."""
    data = Path(tempfile.mkdtemp(prefix="gpupool-queue-bench-"))
    server = Embedded(data, {"shared_buffers": "128MB"})
    try:
        with psycopg.connect(server.start(), autocommit=True) as connection:
            for name in ("http", "rounds", "history"):
                connection.execute(f"CREATE DATABASE {name}")
        for name in ("http", "rounds", "history"):
            migrate(server.url(name))
        given = environment(folder)
        yield from _over_http(given, server.url("http"))
        yield from _rounds(given, server.url("rounds"))
        yield from _pages(server.url("history"))
    finally:
        server.stop()
        shutil.rmtree(data, ignore_errors=True)


def environment(folder: Path, **queue: Any) -> Path:
    """1,000 tenants on pools with more slots than are ever used."""
    pools = [
        {
            "name": f"pool-{number}",
            "gpu": "t4",
            "sharing": {"mode": "time-slicing", "replicas": 8},
            "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 200},
            "overcommit": True,
        }
        for number in range(8)
    ]
    tenants = [
        {"name": f"tenant-{number}", "namespace": f"team-{number}", "pools": {"pool-0": {"gpus": 200}}}
        for number in range(TENANTS)
    ]
    given = environment_data(
        "local",
        name="queue",
        pools=pools,
        priorities=[{"name": "normal", "value": 100, "level": "medium"}],
        tenants=tenants,
        queue={"targets": ["http://example"], "aging": "999h", "reserveAfter": "999h", **queue},
    )
    path = folder / "queue.yaml"
    path.write_text(json.dumps(given))
    return path


@contextmanager
def served(environment: Path, url: str, port: int, *roles: str) -> Iterator[psutil.Process]:
    command = shipped.command("gpupool.cli.main", "serve", str(environment), "--port", str(port))
    variables = {**os.environ, **shipped.variables(), "GPUPOOL_DATABASE_URL": url}
    with subprocess.Popen(
        [*command, *(part for role in roles for part in ("--role", role))],
        env=variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            if "api" in roles:
                _until_open(port)
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


def _over_http(environment: Path, url: str) -> Iterator[Figure]:
    port = free_port()

    async def key() -> str:
        async with Database.open(url) as db:
            return (await keys.create(db, "bench", ["*"], ["jobs:write", "jobs:read"], None))[1]

    secret = asyncio.run(key())
    with served(environment, url, port, "api"):
        each, took = asyncio.run(_enqueue(port, secret, REQUESTS))
    yield "queue-enqueue", took / REQUESTS * 1000
    yield "queue-enqueue-p99", _p99(each) * 1000
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE gpu_jobs, gpu_lanes, gpu_events")
    with served(environment, url, port, "api", "dispatcher"):
        time.sleep(2)
        asyncio.run(_paced(port, secret, 600, 100.0))
        time.sleep(2)
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT extract(epoch FROM decided_at - enqueued_at) FROM gpu_jobs WHERE decided_at IS NOT NULL"
        ).fetchall()
    yield "queue-dispatch-p99", _p99([float(row[0]) for row in rows]) * 1000
    yield "queue-takeover", _takeover(environment, url)


async def _enqueue(port: int, secret: str, requests: int) -> tuple[list[float], float]:
    """Seconds of each request, and of all together."""
    taken: list[float] = []
    numbers = iter(range(requests))
    began = time.perf_counter()
    async with aiohttp.ClientSession() as session:

        async def one() -> None:
            for number in numbers:
                started = time.perf_counter()
                await _post(session, port, secret, number)
                taken.append(time.perf_counter() - started)

        await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    return taken, time.perf_counter() - began


async def _paced(port: int, secret: str, requests: int, per_second: float) -> None:
    async with aiohttp.ClientSession() as session:
        began = time.perf_counter()
        tasks = []
        for number in range(requests):
            await asyncio.sleep(max(0.0, began + number / per_second - time.perf_counter()))
            tasks.append(asyncio.create_task(_post(session, port, secret, 1_000_000 + number)))
        await asyncio.gather(*tasks)


async def _post(session: aiohttp.ClientSession, port: int, secret: str, number: int) -> None:
    headers = {
        "Authorization": f"Bearer {secret}",
        "X-Tenant-Id": f"tenant-{number % TENANTS}",
        "Idempotency-Key": f"bench-{number}",
    }
    body = {"gpu_pool_requested": "pool-0", "target_url": "http://example/x", "request_json": {"n": number}}
    async with session.post(f"http://127.0.0.1:{port}/api/v1/gpu-jobs", json=body, headers=headers) as answer:
        if answer.status != 201:
            raise AssertionError(f"{answer.status}: {await answer.text()}")


def _takeover(environment: Path, url: str) -> float:
    """Seconds from the kill of a leader to the next one's epoch."""
    with served(environment, url, free_port(), "dispatcher") as first:
        time.sleep(4)
        before = _epoch(url, lambda epoch: epoch is not None)
        with served(environment, url, free_port(), "dispatcher"):
            time.sleep(4)
            first.kill()
            killed = time.perf_counter()
            _epoch(url, lambda epoch: epoch is not None and before is not None and epoch > before)
            return time.perf_counter() - killed


def _epoch(url: str, wanted: Any) -> int | None:
    with psycopg.connect(url, autocommit=True) as connection:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            row = connection.execute("SELECT epoch FROM gpu_leader WHERE role = 'dispatcher'").fetchone()
            if wanted(row[0] if row else None):
                return int(row[0]) if row else None
            time.sleep(0.02)
    raise AssertionError("no other leader")


def _rounds(environment: Path, url: str) -> Iterator[Figure]:
    present = current(resolve(load(environment)))
    process = psutil.Process()

    async def measured() -> tuple[float, list[float], float, tuple[float, int]]:
        async with Database.open(url) as db:
            leadership = Leadership(db, "dispatcher", "bench", 3600)
            epoch = await leadership.seek()
            assert epoch is not None
            policies, now = policies_of(present), datetime.now(UTC)
            await plans.enact(db, epoch, present.hash, policies, leadership.holder, now)
            for batch in range(PENDING // 1000):
                for tenant in range(batch * 10 % TENANTS, batch * 10 % TENANTS + 10):
                    await jobs.submit(db, [new_job(f"tenant-{tenant}", present.hash) for _ in range(100)])
            async with db.connection() as connection:
                await connection.execute("ANALYZE")
            supply = present.supply
            dispatcher = Dispatcher(db, leadership, lambda: (supply, present.hash))
            began, started = time.perf_counter(), 0
            while started < 1500:
                started += (await dispatcher.round(epoch)).started
            rate = started / (time.perf_counter() - began)
            supply = _full(present.supply)
            full = Dispatcher(db, leadership, lambda: (supply, present.hash))
            await full.round(epoch)
            gc.collect()
            gc.freeze()  # as the service does
            gc.set_threshold(*COLLECTED)
            times = []
            all_held = (await take_snapshot(db, datetime.now(UTC), 0)).held
            elsewhere = [held for held in all_held if held.placement[0][0] > 0]  # whose end makes no room
            for number, held in enumerate(elsewhere[:200]):
                tenants = (f"tenant-{(number * 10 + each) % TENANTS}" for each in range(10))
                await asyncio.gather(
                    *(jobs.submit(db, [new_job(tenant, present.hash)]) for tenant in tenants)
                )
                ended = Outcome("succeeded")
                await attempts.finish(db, held.job, held.attempt, ended, datetime.now(UTC), (1, 1))
                times.append((await full.round(epoch)).seconds)
            memory = process.memory_info().rss / 2**20
            return rate, times, memory, await _page(db, present.supply)

    rate, times, memory, (seconds, series) = asyncio.run(measured())
    yield "queue-decision", 1000 / rate
    yield "queue-round-p99", _p99(times) * 1000
    yield "queue-memory", memory
    yield "queue-metrics", seconds * 1000
    yield "queue-series", series


async def _page(db: Database, supply: Supply) -> tuple[float, int]:
    """Seconds that the figures of the whole queue take, the median of five, and how many series they are."""
    times, text = [], b""
    for _ in range(5):
        began = time.perf_counter()
        now = datetime.now(UTC)
        snapshot = await take_snapshot(db, now, 0)
        text = generate_latest(
            figures(snapshot, supply, await jobs.waiting(db, now), await spending.settled(db))
        )
        times.append(time.perf_counter() - began)
    return sorted(times)[2], sum(not line.startswith(b"#") for line in text.splitlines())


def _full(supply: Supply) -> Supply:
    """The same, where nothing more fits."""
    pool = supply.pools["pool-0"]
    return replace(supply, pools={**supply.pools, "pool-0": replace(pool, nodes=pool.nodes[:1])})


def new_job(tenant: str, plan_hash: str = "") -> NewJob:
    offer = Offer("pool-0", GPU, 1, 1, 125_000, 65_750, None, "t4")
    return NewJob(
        id=new_id(), tenant=tenant, project=None, user="bench", name="job", priority="normal",
        level=Level.MEDIUM, isolation="shared", gpu_count=1, preemptible=False, preempts=False, retries=0,
        timeout_s=3600, budget_limit_micro=None, offers=(offer,),
        request={"target_url": "http://example", "request_json": {}}, plan_hash=plan_hash,
    )  # fmt: skip


def _pages(url: str) -> Iterator[Figure]:
    """A page of a tenant's jobs where a million have ended."""

    async def measured() -> list[float]:
        async with Database.open(url) as db:
            id = (await jobs.submit(db, [new_job("tenant-0")])).ids[0]
            await jobs.cancel(db, id, "bench", datetime.now(UTC))
            async with db.connection() as connection:
                cursor = await connection.execute(
                    "SELECT column_name AS name FROM information_schema.columns "
                    "WHERE table_name = 'gpu_jobs' ORDER BY ordinal_position"
                )
                columns = [row["name"] for row in await cursor.fetchall()]
                values = [
                    "gen_random_uuid()" if name == "id"
                    else "'tenant-' || n % 1000" if name == "tenant"
                    else "enqueued_at - n * interval '1 second'" if name == "enqueued_at"
                    else name
                    for name in columns
                ]  # fmt: skip
                await connection.execute("SET statement_timeout = 0")
                await connection.execute(
                    f"INSERT INTO gpu_job_history ({', '.join(columns)}) SELECT {', '.join(values)} "
                    f"FROM gpu_jobs, generate_series(1, {ARCHIVED}) AS n WHERE gpu_jobs.id = '{id}'".encode()
                )
                await connection.execute("ANALYZE")
            taken = []
            for number in range(60):
                tenants = frozenset({f"tenant-{number}"})
                started = time.perf_counter()
                page = await jobs.jobs(db, jobs.JobFilter(tenants=tenants), None, 50)
                if page.next:
                    await jobs.jobs(db, jobs.JobFilter(tenants=tenants), page.next, 50)
                taken.append((time.perf_counter() - started) / 2)
            return taken

    yield "queue-list-page", _p99(asyncio.run(measured())) * 1000


def _p99(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def _until_open(port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the API does not start")
