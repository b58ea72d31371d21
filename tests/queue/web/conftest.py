"""Pages for tests: in this process for requests, and served by `gpupool serve` for the browser."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from gpupool.client import local_token
from gpupool.local.ports import free_port
from gpupool.queue.store import keys
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.web.site import add_pages
from tests.browser.conftest import browser as browser
from tests.queue.api.served import Served, local_plan, served

ROOT = Path(__file__).parents[3]
ALL = ("jobs:read", "jobs:write", "usage:read")
Test = Callable[[Served], Coroutine[Any, Any, Any]]


@pytest.fixture
def pages(database: Any) -> Callable[..., Any]:
    """Runs `async def test(served)` on the API with its pages."""

    def run(test: Test, dev: bool = False, queue: dict[str, Any] | None = None) -> Any:
        plan = replace(local_plan(), queue=replace(local_plan().queue, **(queue or {})))

        async def opened(db: Database) -> Any:
            async with served(db, plan, dev) as running:
                add_pages(running.app)
                running.client.headers["accept"] = "text/html"
                return await test(running)

        return database(opened)

    return run


@dataclass
class Site:
    """A service of its own process."""

    address: str
    database: str

    def headers(self, key: str | None = None) -> dict[str, str]:
        """With a key, or else the token of this project, which a site with `--dev` takes."""
        credential = key or local_token.find()
        return {"Authorization": f"Bearer {credential}"} if credential else {}

    def submit(self, tenant: str = "vision", key: str | None = None, **fields: Any) -> str:
        """A new job's id; a container job on a shared T4 where nothing else is asked for."""
        body = {"gpu_pool_requested": "notebooks", "container_image": "python:3.12"} | fields
        headers = {"X-Tenant-Id": tenant} | self.headers(key)
        answer = httpx2.post(f"{self.address}/api/v1/gpu-jobs", json=body, headers=headers, timeout=60)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def wait(self, job: str, *states: str, key: str | None = None) -> None:
        headers = self.headers(key)
        for _ in range(600):
            found = httpx2.get(f"{self.address}/api/v1/gpu-jobs/{job}", headers=headers, timeout=60).json()
            if found["state"] in states:
                return
            time.sleep(0.1)
        raise AssertionError(found)

    def key(self, *tenants: str, scopes: tuple[str, ...] = ALL) -> str:
        """A new key's text. Made in a thread: playwright's loop runs in this one."""

        async def made() -> str:
            async with Database.open(self.database) as db:
                ends = datetime.now(UTC) + timedelta(days=1)
                return (await keys.create(db, f"key of {' and '.join(tenants)}", tenants, scopes, ends))[1]

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(made())).result()


@pytest.fixture(scope="module")
def start(postgres: Embedded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Site]]:
    """Starts a service on a database of its own; stopped with the module."""
    running: list[tuple[subprocess.Popen[bytes], str]] = []

    def started(*options: str) -> Site:
        port = free_port()
        name = f"pages_{port}"
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE migrated")
        folder = tmp_path_factory.mktemp("service")
        command = [str(Path(sys.executable).with_name("gpupool")), "serve", "local", "--port", str(port)]
        process = subprocess.Popen(
            [*command, "--database", postgres.url(name), *options],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "log").open("wb"),
        )
        running.append((process, name))
        site = Site(f"http://127.0.0.1:{port}", postgres.url(name))
        for _ in range(1200):
            try:
                if httpx2.get(f"{site.address}/healthz", timeout=60).status_code == 200:
                    return site
            except httpx2.TransportError:
                assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.1)
        raise AssertionError((folder / "log").read_text())

    yield started
    for process, name in running:
        process.terminate()
        process.wait(60)
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def dev_site(start: Callable[..., Site]) -> Site:
    """With `--dev`: no credential is asked for, and container jobs run as processes."""
    return start("--dev", "--echo", "http://example")


@pytest.fixture(scope="module")
def site(start: Callable[..., Site]) -> Site:
    """As in production: keys are asked for; nothing is executed."""
    return start("--role", "api", "--role", "dispatcher", "--role", "relay")
