"""Jobs from submission to their end, on a real database: HTTP jobs, processes, retries, stops."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from gpupool.queue.domain.attempt_end import cost_of
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import JobState, Level, Outcome
from gpupool.queue.roles.echo import echo
from gpupool.queue.roles.http_job import HttpJobs
from gpupool.queue.store import attempts, jobs, logs, outbox
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import Unavailable
from tests.queue.roles.running import SOURCE, Queue, opened


def process(*command: str, **given: Any) -> dict[str, Any]:
    return {"request": {"container_image": "train:1", "container_command": list(command), **given}}


def python(text: str, **given: Any) -> dict[str, Any]:
    return process("python3", "-u", "-c", text, **given)


def test_an_http_job_is_sent_and_its_answer_kept(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        async with echo() as port:
            queue = Queue(db, port=port)
            id = await queue.submit()
            ended = await queue.ended(id)
            assert (ended.state, ended.attempt, ended.exit_code) == (JobState.SUCCEEDED, 1, 0)
            result = await jobs.result(db, id)
            assert result is not None
            assert result.status == 200
            assert b'"echo": {"x": 1}' in result.body
            await queue.relay.step()
            types = [event.type for event in await outbox.of_job(db, id)]
            assert types == ["enqueued", "dispatched", "started", "succeeded"]
            subjects = [subject for subject, _ in queue.bus.messages]
            assert subjects == [
                "mlops.gpu.jobs.enqueued",
                "mlops.gpu.jobs.dispatched.t4.shared",
                "mlops.gpu.jobs.started",
                "mlops.gpu.jobs.succeeded",
            ]

    database(scenario)


def test_an_answer_with_headers_of_another_encoding_ends_its_job(database) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\nX-Name: J\xf6rg\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
        )
        await writer.drain()
        writer.close()

    async def scenario(db: Database) -> None:
        await opened(db)
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        queue = Queue(db)
        port = server.sockets[0].getsockname()[1]
        queue.executor.http = HttpJobs(lambda: ("http://example",), {"example": ("127.0.0.1", port)})
        id = await queue.submit()
        ended = await queue.ended(id)
        server.close()
        assert (ended.state, ended.attempt) == (JobState.SUCCEEDED, 1)
        result = await jobs.result(db, id)
        assert result is not None
        assert ("X-Name", "J\ufffdrg") in result.headers

    database(scenario)


def test_a_job_that_is_taken_while_leases_are_renewed_runs_once(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        first = await queue.submit(**python("import time; time.sleep(60)"))
        await queue.until(first, lambda job: job.state is JobState.RUNNING)
        second = await queue.submit(**python("import time; time.sleep(1)"))
        await queue.dispatcher.step()
        async with db.transaction() as connection:  # the renewal waits for this
            await connection.execute("SELECT FROM gpu_jobs WHERE id = %s::uuid FOR UPDATE", (first,))
            renewing = asyncio.create_task(queue.executor.renew())
            await asyncio.sleep(0.2)
            await queue.executor.step()
        await renewing
        ended = await queue.ended(second)
        assert (ended.state, ended.attempt) == (JobState.SUCCEEDED, 1)
        await jobs.cancel(db, first, "ada", queue.now())
        await queue.ended(first)

    database(scenario)


def test_output_that_cannot_be_stored_keeps_no_process_from_ending(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        id = await queue.submit(**python("import time\nfor _ in range(20000): print('x' * 99)"))
        async with db.connection() as connection:
            await connection.execute(
                "CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS "
                "$$BEGIN RAISE 'no space left' USING ERRCODE = 'disk_full'; END$$"
            )
            await connection.execute("CREATE TRIGGER t BEFORE INSERT ON gpu_logs EXECUTE FUNCTION no_space()")
        assert (await queue.ended(id)).state is JobState.SUCCEEDED

    database(scenario)


def test_a_process_gets_its_variables_and_its_output_is_kept(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        id = await queue.submit(
            **python(
                "import os; print(os.environ['GPUPOOL_ATTEMPT'], os.environ['GREETING']); print('done')",
                env={"GREETING": "hello"},
            )
        )
        assert (await queue.ended(id)).state is JobState.SUCCEEDED
        lines = [chunk.text for chunk in await logs.page(db, id, None, 0)]
        assert "\n".join(lines).split() == ["1", "hello", "done"]

    database(scenario)


def test_a_log_keeps_its_first_and_its_last_part_and_says_so(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        queue.executor.log_bytes = lambda: 1000
        id = await queue.submit(
            **python("print(('x' * 99 + chr(10)) * 50, end=''); raise Exception('why')"), retries=0
        )
        assert (await queue.ended(id)).state is JobState.FAILED
        lines = "".join(chunk.shown for chunk in await logs.page(db, id, None, 0)).splitlines()
        assert lines[:5] == ["x" * 99] * 5
        assert lines[5].startswith("[gpupool: 4,")
        assert lines[-1] == "Exception: why"
        assert len(lines) < 18

    database(scenario)


def test_a_failure_is_retried_after_a_pause_and_then_final(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        id = await queue.submit(**python("raise SystemExit(3)"), retries=1)
        waiting = await queue.until(id, lambda job: job.failures == 1)
        assert waiting.state is JobState.QUEUED
        assert waiting.not_before is not None
        queue.ahead = timedelta(minutes=10)
        ended = await queue.ended(id)
        assert (ended.state, ended.attempt, ended.failures, ended.exit_code) == (JobState.FAILED, 2, 2, 3)

    database(scenario)


def test_what_runs_too_long_is_ended_and_not_tried_again(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        id = await queue.submit(**python("import time; time.sleep(60)"), timeout_s=1)
        ended = await queue.ended(id)
        assert ended.state is JobState.FAILED
        assert "longer than 1 s" in (ended.reason or "")
        assert ended.attempt == 1

    database(scenario)


def _one_node(pool: str, granted: int) -> Supply:
    """The local environment with one node in `pool`, of which vision may have everything."""
    supply, _ = SOURCE.supply()
    small = replace(supply.pools[pool], nodes=supply.pools[pool].nodes[:1])
    vision = supply.tenants["vision"]
    grants = {**vision.grants, (pool, "nvidia.com/gpu"): granted}
    tenants = {**supply.tenants, "vision": replace(vision, grants=grants)}
    return replace(supply, pools={**supply.pools, pool: small}, tenants=tenants)


CHECKPOINT = """
import signal, sys, time
def save(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(60)
"""


def test_a_cancelled_job_gets_sigterm_and_may_save_its_work(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        id = await queue.submit(**python(CHECKPOINT))
        await queue.until(id, lambda job: job.state is JobState.RUNNING)
        while not await logs.page(db, id, None, 0):
            await asyncio.sleep(0.02)
        await jobs.cancel(db, id, "ada", queue.now())
        assert (await queue.ended(id)).state is JobState.CANCELLED
        assert "saved" in "".join(chunk.text for chunk in await logs.page(db, id, None, 0))

    database(scenario)


def test_a_preempted_job_runs_again_and_exit_0_after_sigterm_is_no_success(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        queue.dispatcher.supply = lambda: (_one_node("training", 8), SOURCE.current.hash)
        low = await queue.submit(**python(CHECKPOINT), pool="training", gpu_count=4)
        await queue.until(low, lambda job: job.state is JobState.RUNNING)
        while not await logs.page(db, low, None, 0):
            await asyncio.sleep(0.02)
        queue.ahead = timedelta(seconds=120)  # a job that has just begun is left alone
        high = await queue.submit(
            **python("pass"), pool="training", gpu_count=4, level=Level.CRITICAL, preempts=True
        )
        assert (await queue.ended(high)).state is JobState.SUCCEEDED
        victim = await queue.job(low)
        assert (victim.failures, victim.disruptions) == (0, 1)
        assert victim.attempt in (1, 2)
        types = [event.type for event in await outbox.of_job(db, low)]
        assert types[:4] == ["enqueued", "dispatched", "started", "preempted"]

    database(scenario)


def test_a_job_whose_priority_changed_says_again_why_it_waits(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        queue.dispatcher.supply = lambda: (_one_node("training", 4), SOURCE.current.hash)
        await queue.submit(**python("pass"), pool="training", gpu_count=4)
        await queue.dispatcher.step()
        id = await queue.submit(**python("pass"), pool="training", gpu_count=4)
        await queue.dispatcher.step()
        before = (await queue.job(id)).waiting
        assert before is not None
        changed = await jobs.reprioritise(db, id, "high", Level.HIGH)
        assert changed.waiting is None
        await queue.dispatcher.step()
        assert (await queue.job(id)).waiting == before

    database(scenario)


def test_a_round_writes_nothing_where_nothing_is_new(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        supply, plan_hash = SOURCE.supply()
        empty = replace(supply.pools["notebooks"], nodes=())
        full = replace(supply, pools={**supply.pools, "notebooks": empty})
        queue.dispatcher.supply = lambda: (full, plan_hash)
        id = await queue.submit()
        await queue.dispatcher.step()
        assert (await queue.job(id)).waiting is not None
        before = await _written(db)
        await queue.dispatcher.step()
        assert await _written(db) == before
        await jobs.reprioritise(db, id, "medium", Level.MEDIUM)
        before = await _written(db)
        await queue.dispatcher.step()
        assert await _written(db) > before

    database(scenario)


async def _written(db: Database) -> int:
    """Transactions that wrote something, of the whole server."""
    async with db.connection() as connection:
        cursor = await connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS n")
        (row,) = await cursor.fetchall()
    return int(row["n"])


def test_an_answer_outlasts_an_outage_which_is_no_run_time(database, monkeypatch) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue, passed = Queue(db), [0.0]
        queue.executor.clock = lambda: passed[0]

        async def send(*_: Any) -> Any:
            passed[0] += 10
            return Outcome("succeeded", None, 0), None

        finish, tries = attempts.finish, []

        async def unavailable(*given: Any, **named: Any) -> Any:
            tries.append(given)
            if len(tries) < 4:
                passed[0] += 3600
                raise Unavailable("no answer")
            return await finish(*given, **named)

        monkeypatch.setattr(queue.executor.http, "send", send)
        monkeypatch.setattr(attempts, "finish", unavailable)
        monkeypatch.setattr("gpupool.queue.roles.executor.REPORTS_S", (0.01,))
        queue.ahead = timedelta(hours=-5)  # and then the clock of the wall is set
        id = await queue.submit()
        await queue.until(id, lambda job: job.state is not JobState.QUEUED)
        queue.ahead = timedelta(hours=5)
        ended = await queue.ended(id)
        assert (ended.state, ended.attempt) == (JobState.SUCCEEDED, 1)
        (attempt,) = await attempts.of_job(db, id)
        assert attempt.started_at is not None
        assert attempt.finished_at == attempt.started_at + timedelta(seconds=10)
        rate = ended.rate_micro or 0
        assert attempt.cost_micro == cost_of(rate, timedelta(seconds=10), 10**12) > 0

    database(scenario)


def test_no_wall_clock_and_no_absence_of_the_database_ends_an_attempt(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        id = await queue.submit()
        await queue.dispatcher.step()
        held = {(id, 1): 4.0}
        assert await attempts.take(db, queue.holder, 1, 15)
        assert await attempts.record_start(db, id, 1, queue.now())
        for hours in (0, 48, -48, 0):  # the janitor's clock, and that of the database
            queue.ahead = timedelta(hours=hours)
            at = queue.now() + timedelta(hours=hours)
            await attempts.heartbeat(db, queue.holder, held, 15, at)
            await queue.janitor.step()
            queue.watched += 4
            await queue.janitor.step()
            assert (await queue.job(id)).state is JobState.RUNNING
        queue.watched += 3600  # it stood still, as the executor may have
        await queue.janitor.step()
        assert (await queue.job(id)).state is JobState.RUNNING
        await queue.lose_leases()
        lost = await queue.job(id)
        assert (lost.state, lost.disruptions) == (JobState.QUEUED, 1)
        (attempt,) = await attempts.of_job(db, id)
        assert attempt.started_at is not None
        assert attempt.finished_at == attempt.started_at + timedelta(seconds=4)

    database(scenario)


def test_an_executor_that_dies_loses_no_job(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        async with echo() as port:
            dead = Queue(db, port=port)
            id = await dead.submit()
            await dead.dispatcher.step()
            assert [job.id for job in await attempts.take(db, dead.holder, 1, 0.01)] == [id]
            await dead.dispatcher.leadership.resign()
            await asyncio.sleep(0.05)
            alive = Queue(db, port=port)
            alive.ahead = timedelta(hours=1)
            await alive.lose_leases()
            requeued = await alive.job(id)
            assert (requeued.state, requeued.failures, requeued.disruptions) == (JobState.QUEUED, 0, 1)
            alive.ahead = timedelta(hours=2)
            assert (await alive.ended(id)).state is JobState.SUCCEEDED

    database(scenario)


def test_redirects_are_checked_and_large_answers_cut(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        app = web.Application()
        app.router.add_post("/away", _redirect("http://elsewhere/x"))
        app.router.add_post("/metadata", _redirect("http://169.254.169.254/latest"))
        app.router.add_post("/large", _large)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = int(runner.addresses[0][1])
        queue = Queue(db)
        queue.executor.http = HttpJobs(
            lambda: ("http://example", "http://169.254.169.254"), {"example": ("127.0.0.1", port)}
        )
        ends = {}
        for path in ("away", "metadata", "large"):
            id = await queue.submit(request={"target_url": f"http://example/{path}", "request_json": {}})
            ends[path] = (await queue.ended(id), await jobs.result(db, id))
        await runner.cleanup()
        assert "http://elsewhere is not among queue.targets" in (ends["away"][0].reason or "")
        assert "an address that jobs may not reach" in (ends["metadata"][0].reason or "")
        assert [ends[path][0].attempt for path in ends] == [1, 1, 1]
        kept = ends["large"][1]
        assert kept is not None
        assert (len(kept.body), kept.truncated) == (1024 * 1024, True)

    database(scenario)


def _redirect(target: str):
    async def answer(_: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect(target)

    return answer


async def _large(_: web.Request) -> web.Response:
    return web.Response(body=b"x" * (3 * 1024 * 1024))


def test_a_commands_folder_is_its_own_and_goes_with_it(database) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        script = "import os; open('x', 'w'); print(os.getcwd(), os.environ['HOME'], os.environ['TMPDIR'])"
        ended = await queue.ended(await queue.submit(**python(script)))
        assert ended.state == JobState.SUCCEEDED
        (chunk,) = await logs.page(db, ended.id, None, 0)
        (folder,) = set(chunk.text.split())
        assert not Path(folder).exists()

    database(scenario)
