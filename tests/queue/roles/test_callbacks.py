"""Callbacks of jobs that have ended: one for each, again until it is taken, never to a target not allowed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from aiohttp import web

from gpupool.queue.roles.callbacks import MAKING, MOST_TRIES, SECONDS, Callbacks
from gpupool.queue.roles.http_job import HttpJobs
from gpupool.queue.store import callbacks as store
from gpupool.queue.store import jobs, outbox
from gpupool.queue.store.database import Database, fetch
from tests.queue.acting import As
from tests.queue.roles.running import Queue, opened


async def receiver(answers: list[int], received: list[Any]) -> tuple[web.AppRunner, int]:
    async def take(request: web.Request) -> web.Response:
        received.append(await request.json())
        return web.Response(status=answers.pop(0) if answers else 200)

    app = web.Application()
    app.router.add_post("/done", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, int(runner.addresses[0][1])


async def all_made(callbacks: Callbacks) -> None:
    while await callbacks.step():
        pass


def request(url: str, *command: str) -> dict[str, Any]:
    return {"container_image": "a:1", "container_command": list(command), "callback_url": url}


def test_a_callback_is_made_again_until_it_is_taken_and_then_no_more(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        received: list[Any] = []
        runner, port = await receiver([503, 200], received)
        queue = Queue(db)
        http = HttpJobs(lambda: ("http://example",), {"example": ("127.0.0.1", port)})
        callbacks = Callbacks(As(db, "executor"), queue.leads("callbacks"), http, queue.now)
        failing = request("http://example/done", "python3", "-c", "raise SystemExit(7)")
        failed = await queue.submit(request=failing, retries=0)
        cancelled = await queue.submit(request=request("http://example/done", "true"))
        await jobs.cancel(db, cancelled, "ada", queue.now())
        await all_made(callbacks)
        assert [(one["id"], one["state"]) for one in received] == [(cancelled, "cancelled")]
        queue.ahead = timedelta(minutes=1)
        await all_made(callbacks)
        assert len(received) == 2
        await queue.ended(failed)
        await all_made(callbacks)
        await all_made(callbacks)
        await runner.cleanup()
        assert len(received) == 3
        assert (received[2]["id"], received[2]["state"], received[2]["exit_code"]) == (failed, "failed", 7)
        after = await queue.submit(request=request("http://example/done", "true"), depends_on=(failed,))
        (last,) = await store.take(db, queue.now(), queue.now())
        assert last.job == after, "cancelled as it came"

    database(scenario)


def test_a_target_that_is_not_allowed_is_given_up(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        callbacks = Callbacks(As(db, "executor"), queue.leads("callbacks"), HttpJobs(lambda: ()), queue.now)
        id = await queue.submit(request=request("http://elsewhere/done", "true"))
        await jobs.cancel(db, id, "ada", queue.now())
        before = await queue.job(id)
        for hours in range(MOST_TRIES + 2):
            queue.ahead = timedelta(hours=2 * hours)
            await all_made(callbacks)
        async with db.connection() as connection:
            cursor = await connection.execute("SELECT count(*) AS n FROM gpu_callbacks")
            assert await cursor.fetchone() == {"n": 0}
        events = [event for event in await outbox.of_job(db, id) if event.type == "callback_failed"]
        assert [event.data["tries"] for event in events] == list(range(1, MOST_TRIES + 1))
        assert {event.data["reason"] for event in events} == {
            "http://elsewhere is not among queue.targets of the environment file"
        }
        assert ["again_at" in event.data for event in events] == [*[True] * (MOST_TRIES - 1), False]
        after = await queue.job(id)
        assert (after.state, after.version) == (before.state, before.version + MOST_TRIES)
        assert [event.seq for event in await outbox.of_job(db, id)] == list(range(1, MOST_TRIES + 3))

    database(scenario)


def test_a_receiver_says_when_to_come_again(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)

        async def busy(request: web.Request) -> web.Response:
            return web.Response(status=503, headers={"Retry-After": "900"})

        app = web.Application()
        app.router.add_post("/done", busy)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        http = HttpJobs(lambda: ("http://example",), {"example": ("127.0.0.1", runner.addresses[0][1])})
        callbacks = Callbacks(As(db, "executor"), queue.leads("callbacks"), http, queue.now)
        id = await queue.submit(request=request("http://example/done", "true"))
        await jobs.cancel(db, id, "ada", queue.now())
        await all_made(callbacks)
        await runner.cleanup()
        async with db.connection() as connection:
            (row,) = await (await connection.execute("SELECT due_at FROM gpu_callbacks")).fetchall()
        assert row["due_at"] > queue.now() + timedelta(seconds=800)

    database(scenario)


def test_a_receiver_that_does_not_answer_delays_no_callback_to_another(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue, received = Queue(db), []  # type: Queue, list[Any]
        runner, port = await receiver([], received)
        hung: list[asyncio.StreamWriter] = []
        silent = await asyncio.start_server(lambda _, writer: hung.append(writer), "127.0.0.1", 0)
        at = {"example": ("127.0.0.1", port), "silent": ("127.0.0.1", silent.sockets[0].getsockname()[1])}
        http = HttpJobs(lambda: ("http://example", "http://silent"), at)
        callbacks = Callbacks(As(db, "executor"), queue.leads("callbacks"), http, queue.now)
        silents = [f"http://{'Silent' if n % 2 else 'silent'}?job={n}" for n in range(70)]
        for url in [*silents, *["http://example/done"] * 30]:
            id = await queue.submit(request=request(url, "true"))
            await jobs.cancel(db, id, "ada", queue.now())
        role = asyncio.create_task(callbacks.run(asyncio.Event()))
        async with asyncio.timeout(SECONDS / 2):
            while len(received) < 30:
                await asyncio.sleep(0.05)
        role.cancel()
        await asyncio.gather(role, return_exceptions=True)
        assert len(hung) == 4, "and no more of them at once"
        silent.close()
        await runner.cleanup()

    database(scenario)


def test_a_callback_is_taken_by_one_process_at_a_time(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        id = await queue.submit(request=request("http://example/done", "true"))
        await jobs.cancel(db, id, "ada", queue.now())
        now = queue.now()
        async with db.transaction() as first:
            taken = await fetch(first, "callbacks_take", now=now, until=now + MAKING, limit=9, busy=[])
            second = asyncio.create_task(store.take(db, now, now + MAKING))
            await asyncio.sleep(0.2)
        assert [row["job"] for row in taken] == [id]
        assert await second == []
        assert [one.job for one in await store.take(db, now + MAKING, now + 2 * MAKING)] == [id]

    database(scenario)
