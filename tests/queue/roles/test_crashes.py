"""The n-th call of store, bus or target fails, before or after it takes effect, for every n: nothing is lost.

A process dies at that call. Another one takes over: every accepted job ends exactly once, no attempt is
decided twice, the ledger balances, and the events are complete and in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from gpupool.queue.records import JobState
from gpupool.queue.roles import dispatcher, executor, janitor, leader, relay
from gpupool.queue.roles.echo import echo
from gpupool.queue.roles.http_job import HttpJobs
from gpupool.queue.store import attempts, dispatch, housekeeping, outbox
from gpupool.queue.store.database import Database
from tests.queue.roles.running import SOURCE, Memory, Queue, opened

CALLS = {
    dispatch: ("lead", "claim"),
    dispatcher: ("take_snapshot",),
    attempts: ("take", "record_start", "heartbeat", "finish"),
    outbox: ("place", "unpublished", "published"),
    housekeeping: ("expire_leases",),
    Memory: ("publish",),
    HttpJobs: ("send",),
}
"""What the roles call, by module or class."""


MOST_CALLS = 48
"""More than the scenario makes without a crash."""


class Died(BaseException):
    """The process is gone at this point: nothing of it runs any more."""


class Fuse:
    """Counts calls, and dies at the chosen one."""

    def __init__(self, at: int | None, after: bool) -> None:
        self.at, self.after, self.calls = at, after, 0
        self.names: list[str] = []

    def wrap(self, name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(call)
        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            self.names.append(name)
            mine = self.calls
            if mine == self.at and not self.after:
                raise Died(name)
            answer = await call(*args, **kwargs)
            if mine == self.at:
                raise Died(name)
            return answer

        return counted


async def scenario(db: Database, fuse: Fuse, monkeypatch: pytest.MonkeyPatch) -> None:
    await opened(db)
    bus = Memory()
    async with echo() as port:
        with monkeypatch.context() as patched:
            for module, names in CALLS.items():
                for name in names:
                    patched.setattr(module, name, fuse.wrap(name, getattr(module, name)))
            first = Queue(db, bus, port)
            ids = [await first.submit() for _ in range(2)]
            ids.append(await first.submit(request={"target_url": "http://example/f", "request_json": 1}))
            with contextlib.suppress(Died):
                await asyncio.wait_for(_work(first, ids), 20)
            for running in list(first.executor.running.values()):
                running.task.cancel()
            await asyncio.sleep(0)
        second = Queue(db, bus, port)
        second.ahead = timedelta(hours=1)
        await _forget_leaders(db)
        await asyncio.wait_for(_work(second, ids), 30)
        await _sound(db, bus, second, ids)


async def _work(queue: Queue, ids: list[str]) -> None:
    """All roles, step by step, until every job has ended and every event is out."""
    while True:
        await queue.janitor.step()
        queue.watched += 3
        await queue.dispatcher.step()
        await queue.executor.step()
        await queue.executor.renew()
        running = [one.task for one in queue.executor.running.values()]
        if running:
            await asyncio.wait(running, timeout=5)
        await queue.relay.step()
        jobs = [await queue.job(id) for id in ids]
        if all(job.state.final for job in jobs) and not await outbox.unpublished(queue.db, 10):
            return
        queue.ahead += timedelta(minutes=10)


async def _forget_leaders(db: Database) -> None:
    async with db.connection() as connection:
        await connection.execute("UPDATE gpu_leader SET expires_at = now() - interval '1 hour'")
        await connection.execute("UPDATE gpu_jobs SET lease_until = now() WHERE lease_until IS NOT NULL")


async def _sound(db: Database, bus: Memory, queue: Queue, ids: list[str]) -> None:
    for id in ids:
        job = await queue.job(id)
        assert job.state is JobState.SUCCEEDED, job
        events = await outbox.of_job(db, id)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        types = [event.type for event in events]
        assert types.count("succeeded") == 1
        assert types[-1] == "succeeded"
        assert types.count("dispatched") == job.attempt
        sent = [sent for _, sent in bus.messages]
        assert {event.id for event in events} <= set(sent)
    async with db.connection() as connection:
        cursor = await connection.execute(
            "SELECT job, attempt, sum(CASE kind WHEN 'hold' THEN micro ELSE -micro END) AS open "
            "FROM gpu_ledger GROUP BY job, attempt HAVING "
            "sum(CASE kind WHEN 'hold' THEN micro ELSE -micro END) <> 0"
        )
        assert await cursor.fetchall() == []
        cursor = await connection.execute("SELECT count(*) AS n FROM gpu_accounts WHERE held_micro <> 0")
        assert (await cursor.fetchone()) == {"n": 0}


def test_a_dispatcher_whose_clock_stood_still_writes_nothing(database) -> None:
    async def test(db: Database) -> None:
        await opened(db)
        clocks = {"first": 0.0, "second": 0.0}
        leads = [
            leader.Leadership(db, dispatch.ROLE, name, 60, lambda name=name: clocks[name]) for name in clocks
        ]
        first, second = (dispatcher.Dispatcher(db, one, SOURCE.supply) for one in leads)
        await first.step()
        queue = Queue(db)
        id = await queue.submit()
        await _forget_leaders(db)  # the first one's lease is over, though not by its clock
        assert leads[0].epoch is not None
        assert await leads[1].seek() == leads[0].epoch + 1
        await first.step()
        assert (await queue.job(id)).state is JobState.QUEUED
        assert leads[0].epoch is None
        await second.step()
        assert (await queue.job(id)).state is JobState.SCHEDULED
        clocks["second"] = 41.0  # two thirds of its lease have passed: it stops by itself
        assert leads[1].epoch is None

    database(test)


MODULES = (dispatcher, executor, janitor, leader, relay)
"""They call the store through its modules, so that a patch of a module reaches them."""


def test_every_crash_point_is_survived(database, monkeypatch) -> None:
    whole = Fuse(None, after=False)
    database(lambda db: scenario(db, whole, monkeypatch))
    assert {name for names in CALLS.values() for name in names} <= set(whole.names)
    assert whole.calls <= MOST_CALLS
    assert all(module.__name__ in sys.modules for module in MODULES)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, MOST_CALLS + 1))
def test_a_crash_at_the_nth_call_loses_nothing(database, monkeypatch, at, after) -> None:
    database(lambda db: scenario(db, Fuse(at, after), monkeypatch))
