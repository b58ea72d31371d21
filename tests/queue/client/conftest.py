"""The real API on a port of its own, for clients that are no part of the test's event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn

from gpupool.cli.queue.connections import queue_folder
from gpupool.client import local_token
from gpupool.queue.api.app import create_app
from gpupool.queue.domain.current import current
from gpupool.queue.store import dispatch
from gpupool.queue.store.database import Database
from tests.queue.api.served import local_plan
from tests.queue.store.samples import enacted


@dataclass
class Queue:
    """A running queue, without anything that decides or runs jobs."""

    url: str
    db: Database

    async def ask(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        """Run ordinary code that asks the queue."""
        return await asyncio.to_thread(ask, *arguments)


Test = Callable[[Queue], Coroutine[Any, Any, None]]


@pytest.fixture
def queue(database: Any) -> Callable[[Test], None]:
    """Runs `async def test(queue)`."""

    def run(test: Test) -> None:
        async def opened(db: Database) -> None:
            plan = local_plan()
            now = current(plan)
            policies = [dispatch.TenantPolicy(tenant.name, tenant.id) for tenant in plan.tenants]
            await enacted(db, *policies, plan_hash=now.hash)
            with socket.socket() as listening:
                listening.bind(("127.0.0.1", 0))
                port = listening.getsockname()[1]
                app = create_app(lambda: now, db, dev=True, token=local_token.ensure(queue_folder()))
                server = uvicorn.Server(
                    uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
                )
                serving = asyncio.create_task(server.serve([listening]))
                try:
                    while not server.started:
                        await asyncio.sleep(0.01)
                    await test(Queue(f"http://127.0.0.1:{port}", db))
                finally:
                    server.should_exit = True
                    await serving

        database(opened)

    return run
