"""gpupool's queue in `make bench` on a control plane: the service with all its roles, as in production."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import psutil
import psycopg

from gpupool import shipped
from gpupool.local.ports import free_port
from gpupool.plan.pods import LAUNCHER_USER
from gpupool.queue.store import keys
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.store.migrate import migrate
from tests.perf.job_cluster import FULL, POOL, TENANTS, Cluster
from tests.perf.measure import Failed

QUEUED = 10_000
ARRAY = 100
"""Jobs of one submission, where jobs are submitted as arrays."""
_PATIENCE_S = 60.0


class OurQueue:
    """A running service."""

    def __init__(self, url: str, port: int, secret: str, pids: Collection[int]) -> None:
        self._url, self._port, self._secret = url, port, secret
        self._pids = pids

    def pids(self) -> Collection[int]:
        """The service and PostgreSQL."""
        return self._pids

    async def submit(self, session: aiohttp.ClientSession, number: int) -> list[str]:
        """Submit a container job; the name that its first Job will have."""
        return await self._post(session, number)

    async def submit_array(self, session: aiohttp.ClientSession, number: int) -> list[str]:
        """Submit `ARRAY` container jobs in one request; the names that their first Jobs will have."""
        return await self._post(session, number, array=ARRAY)

    async def _post(self, session: aiohttp.ClientSession, number: int, **given: object) -> list[str]:
        headers = {"Authorization": f"Bearer {self._secret}", "X-Tenant-Id": f"tenant-{number % TENANTS}"}
        body = {
            "gpu_pool_requested": POOL,
            "container_image": "busybox:1",
            "container_command": ["true"],
            "timeout_seconds": 3600,
            **given,
        }
        address = f"http://127.0.0.1:{self._port}/api/v1/gpu-jobs"
        async with session.post(address, json=body, headers=headers, ssl=False) as answer:
            said = await answer.json()
            if answer.status != 201:
                raise Failed(f"the queue answered {answer.status}: {said}")
        return [f"gp-{id.replace('-', '')}-1" for id in said["job_ids"] or [said["id"]]]

    def fill(self) -> None:
        """Jobs that wait for the GPU of a pool that another holds: they stay queued."""

        async def submit() -> None:
            async with aiohttp.ClientSession() as session:
                for number in range(TENANTS):
                    each = {"gpu_pool_requested": FULL, "array": QUEUED // TENANTS}
                    await self._post(session, number, **each)

        asyncio.run(submit())


@contextmanager
def running(made: Cluster, folder: Path) -> Iterator[OurQueue]:
    """The service on a PostgreSQL as in production (synchronous), with all roles in one process."""
    data = Path(tempfile.mkdtemp(prefix="gpupool-queue-bench-"))
    server = Embedded(data, {"shared_buffers": "128MB"})
    try:
        with psycopg.connect(server.start(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE jobs")
            postgres = psutil.Process(connection.info.backend_pid).ppid()
        url = server.url("jobs")
        migrate(url)
        secret = asyncio.run(_key(url))
        port = free_port()
        arguments = ("--port", str(port), "--kubeconfig", str(made.plane.kubeconfig), "--as", LAUNCHER_USER)
        command = shipped.command("gpupool.cli.main", "serve", str(made.environment), *arguments)
        variables = {**os.environ, **shipped.variables(), "GPUPOOL_DATABASE_URL": url}
        with (
            (folder / "serve.log").open("wb") as log,
            subprocess.Popen(command, env=variables, stdout=log, stderr=log) as process,
        ):
            try:
                _until_open(process, port, folder / "serve.log")
                yield OurQueue(url, port, secret, (process.pid, postgres))
            finally:
                process.terminate()
    finally:
        server.stop()
        shutil.rmtree(data, ignore_errors=True)


async def _key(url: str) -> str:
    async with Database.open(url) as db:
        return (await keys.create(db, "bench", ["*"], ["jobs:write", "jobs:read"], None))[1]


def _until_open(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise Failed(f"the queue does not run: {log.read_text()[-800:]}")
