"""The API in this process, over a real PostgreSQL and environments/local.yaml."""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
from fastapi import FastAPI

from gpupool.client import local_token
from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import load
from gpupool.queue.api.app import create_app
from gpupool.queue.connections import Bounds, Connections
from gpupool.queue.domain.current import current
from gpupool.queue.http_server import Server, listen_on
from gpupool.queue.store import dispatch, keys
from gpupool.queue.store.database import Database
from tests.queue.acting import As
from tests.queue.store.samples import enacted

LOCAL = Path(__file__).parents[3] / "environments" / "local.yaml"
VISION = "11111111-1111-1111-1111-111111111111"
OCR = "00000000-0000-0000-0000-000000000001"
HTTP_JOB = {"gpu_pool_requested": "t4", "target_url": "http://example", "request_json": {"x": 1}}
CONTAINER_JOB = {"gpu_pool_requested": "t4", "container_image": "python:3.12"}


@functools.cache
def local_plan() -> Plan:
    return resolve(load(LOCAL))


@dataclass
class Clock:
    """Time that tests move."""

    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> datetime:
        return self.at

    def forward(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@dataclass
class Served:
    """A running API with what tests look at from the inside."""

    app: FastAPI
    db: Database
    client: httpx2.AsyncClient
    clock: Clock
    owner: dict[str, str]
    """Headers with the local token, with `--dev`; else none."""

    async def key(
        self,
        *tenants: str,
        scopes: tuple[str, ...] = ("jobs:read", "jobs:write", "usage:read"),
        days: float = 1,
    ) -> dict[str, str]:
        """Headers with a new API key."""
        ends = datetime.now(UTC) + timedelta(days=days)
        _, secret = await keys.create(self.db, "test", tenants, scopes, ends)
        return {"Authorization": f"Bearer {secret}"}

    async def submit(self, headers: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
        given = self.owner | {"X-Tenant-Id": "vision"} | (headers or {})
        response = await self.client.post("/api/v1/gpu-jobs", json=HTTP_JOB | fields, headers=given)
        assert response.status_code == 201, response.text
        return dict(response.json())


@asynccontextmanager
async def served(db: Database, plan: Plan, dev: bool, **more: Any) -> AsyncIterator[Served]:
    policies = [
        dispatch.TenantPolicy(
            tenant.name, tenant.id, projects={one.name: dispatch.ProjectPolicy() for one in tenant.projects}
        )
        for tenant in plan.tenants
    ]
    clock = Clock()
    now = current(plan)
    await enacted(db, *policies, plan_hash=now.hash)
    with tempfile.TemporaryDirectory() as folder:
        file = local_token.ensure(Path(folder))
        app = create_app(lambda: now, As(db, "api"), dev=dev, token=file, clock=clock, **more)
        transport = httpx2.ASGITransport(app, client=("127.0.0.1", 5), raise_app_exceptions=False)
        owner = {"Authorization": f"Bearer {local_token.read(file)}"} if dev else {}
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost:8021") as client:
            yield Served(app, db, client, clock, owner)


@asynccontextmanager
async def listening(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the API on a real socket: in-process clients can't read a stream that does not end."""
    async with (
        port_of(app) as port,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client,
    ):
        yield client


@asynccontextmanager
async def port_of(app: FastAPI, **bounds: Any) -> AsyncIterator[int]:
    """The API on a real socket, with some of the bounds on connections."""
    server = Server(app, Connections(Bounds(**bounds)))
    server.config.timeout_graceful_shutdown = 1
    listening, _ = listen_on("127.0.0.1", 0)
    running = asyncio.create_task(server.serve([listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await running


def problem(response: httpx2.Response) -> str:
    """The name of the problem that a response is; checks that it is one."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    body = response.json()
    assert body["status"] == response.status_code
    assert body["detail"]
    assert body["type"].startswith("https://gpupool.dev/problems/")
    return str(body["type"]).rpartition("/")[2]
