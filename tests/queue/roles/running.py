"""A queue in this process for tests: the roles on a real database, a bus in memory, a target that echoes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from gpupool.queue.domain.offers import GpuRequest, offers
from gpupool.queue.domain.supply import supply_of
from gpupool.queue.events.envelope import envelope
from gpupool.queue.plan_source import PlanSource
from gpupool.queue.records import Job, JobEvent, Level, NewJob, new_id
from gpupool.queue.roles.dispatcher import Dispatcher
from gpupool.queue.roles.executor import Executor
from gpupool.queue.roles.http_job import HttpJobs
from gpupool.queue.roles.janitor import Janitor
from gpupool.queue.roles.leader import Leadership
from gpupool.queue.roles.offering import Offering
from gpupool.queue.roles.policies import policies_of
from gpupool.queue.roles.relay import Relay
from gpupool.queue.store import dispatch, jobs, plans
from gpupool.queue.store.database import Database
from tests.queue.acting import As

LOCAL = Path(__file__).parents[3] / "environments" / "local.yaml"
SOURCE = PlanSource(LOCAL)


class Memory:
    """A bus that keeps what is published."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str]] = []

    async def publish(self, subject: str, payload: bytes, id: str) -> None:
        self.messages.append((subject, id))

    async def close(self) -> None:
        """Nothing is open."""


def new(tenant: str = "vision", pool: str = "notebooks", source: PlanSource = SOURCE, **given: Any) -> NewJob:
    """An accepted job of the local environment; an HTTP job where nothing else is asked for."""
    plan = source.plan()
    rule = next(one for one in plan.tenants if one.name == tenant)
    wish = GpuRequest(pool, given.pop("isolation", None), None, given.get("gpu_count", 1))
    request = given.pop("request", None) or {"target_url": "http://example/x", "request_json": {"x": 1}}
    values: dict[str, Any] = {
        "id": new_id(), "tenant": tenant, "project": None, "user": "ada", "name": "job",
        "priority": "low", "level": Level.LOW, "isolation": wish.isolation or "shared", "gpu_count": 1,
        "preemptible": True, "preempts": False, "retries": 1, "timeout_s": 600, "budget_limit_micro": None,
        "offers": offers(plan, supply_of(plan), rule, wish), "request": request,
        "plan_hash": source.current.hash,
    }  # fmt: skip
    return NewJob(**{**values, **given})


class Queue:
    """The roles of one process, stepped by hand or run. `clock` may be moved."""

    def __init__(
        self,
        db: Database,
        bus: Memory | None = None,
        port: int | None = None,
        source: PlanSource = SOURCE,
    ) -> None:
        self.db = db
        self.source = source
        self.bus = bus or Memory()
        self.ahead = timedelta()
        self.holder = new_id()
        hosts = {"example": ("127.0.0.1", port)} if port else {}
        http = HttpJobs(lambda: ("http://example",), hosts)
        deciding = As(db, "dispatcher")
        self.executor = Executor(As(db, "executor"), self.holder, http, dev=True, now=self.now)
        self.dispatcher = Dispatcher(
            deciding,
            self.leads("dispatcher"),
            source.supply,
            now=self.now,
            offering=Offering(deciding, source.present, self.holder, self.now),
        )
        self.relay = Relay(deciding, self.leads("relay"), self.bus, _envelope)
        self.janitor = Janitor(
            deciding, self.leads("janitor"), lambda: 604_800, self.now, lambda: self.watched
        )
        self.watched = 0.0

    def leads(self, role: str) -> Leadership:
        part = "executor" if role == "callbacks" else "dispatcher"
        return Leadership(As(self.db, part), role, self.holder, 60)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    async def lose_leases(self) -> None:
        """The janitor watches for so long that leases that are not renewed are over."""
        for _ in range(12):
            await self.janitor.step()
            self.watched += 3

    async def submit(self, **given: Any) -> str:
        return (await jobs.submit(self.db, [new(**given)])).ids[0]

    async def job(self, id: str) -> Job:
        found = await jobs.job(self.db, id)
        assert found is not None
        return found

    async def until(self, id: str, wanted: Callable[[Job], bool], seconds: float = 20) -> Job:
        """Step dispatcher and executor until the job is as wanted."""
        async with asyncio.timeout(seconds):
            while True:
                await self.dispatcher.step()
                await self.executor.step()
                await self.executor.renew()
                found = await self.job(id)
                if wanted(found):
                    return found
                await asyncio.sleep(0.02)

    async def ended(self, id: str, seconds: float = 20) -> Job:
        return await self.until(id, lambda job: job.state.final, seconds)


@asynccontextmanager
async def webhook(answers: Iterable[int] = (), slow_s: float = 0) -> AsyncIterator[tuple[str, list[str]]]:
    """The address of a webhook of this process, and the texts that it gets. It answers with these codes, then
    with 200, so many seconds later."""
    codes, texts = iter(answers), list[str]()

    async def hook(request: web.Request) -> web.Response:
        texts.append((await request.json())["text"])
        await asyncio.sleep(slow_s)
        return web.Response(status=next(codes, 200))

    app = web.Application()
    app.router.add_post("/secret", hook)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/secret", texts
    finally:
        await runner.cleanup()


async def opened(db: Database, source: PlanSource = SOURCE) -> None:
    """The Plan is in force in a fresh database."""
    epoch = await dispatch.lead(db, dispatch.ROLE, "opening", 60)
    assert epoch is not None
    current = source.current
    await plans.enact(db, epoch, current.hash, policies_of(current), "opening", datetime.now(UTC))
    await dispatch.resign(db, dispatch.ROLE, "opening")


def _envelope(event: JobEvent) -> dict[str, Any]:
    return envelope("local", "mlops.gpu.jobs", event)
