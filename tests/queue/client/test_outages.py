"""Outages between the client and the queue: nothing is submitted twice, said wrong, lost or seen twice."""

from __future__ import annotations

import asyncio
import os
import random
import time
from asyncio.subprocess import PIPE
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from gpupool.client import (
    AsyncClient,
    Client,
    GpupoolClientError,
    Job,
    JobState,
    LostContact,
    NotReached,
    WaitTimeout,
    sending,
)
from gpupool.queue.api import job_details, streaming
from gpupool.queue.store import attempts, jobs, keys, logs, outbox
from gpupool.queue.store.database import Database
from gpupool.queue.store.dispatch import lead
from tests.queue.api.served import HTTP_JOB, local_plan, port_of, served
from tests.queue.client.faulty_proxy import FAULTS, SILENT, Proxy
from tests.queue.client.test_command_line import GPUPOOL
from tests.queue.store.samples import dispatched, finished, read, sql

JOB: Any = {**HTTP_JOB}
Behind = Callable[[Callable[["Remote"], Coroutine[Any, Any, None]]], None]


class Remote:
    """A queue behind a proxy that misbehaves on demand."""

    def __init__(self, proxy: Proxy, db: Database, key: str) -> None:
        self.proxy, self.db, self.key = proxy, db, key

    async def ask(self, ask: Callable[[Client], Any], **options: Any) -> Any:
        """What ordinary code gets in a thread of its own."""

        def run() -> Any:
            with Client(
                self.proxy.url, key=self.key, **{"timeout": 0.4, "retry_for": 20.0} | options
            ) as client:
                return ask(client)

        return await asyncio.to_thread(run)

    async def running(self, *lines: str) -> str:
        """A new job that runs and has printed these lines."""
        id = (await self.ask(lambda client: client.submit_job(**JOB))).id
        now = datetime.now(UTC)
        assert await dispatched(self.db, now=now, only=id) == [id]
        await attempts.take(self.db, "executor", 10, 30, now)
        assert await attempts.record_start(self.db, id, 1, now)
        await logs.append(self.db, id, 1, lines)
        return str(id)

    async def ends(self, id: str, how: str = "succeeded") -> None:
        assert await finished(self.db, await read(self.db, id), how, retry=False)


@asynccontextmanager
async def remote(db: Database) -> AsyncIterator[Remote]:
    async with served(db, local_plan(), dev=False) as api, port_of(api.app) as port:
        _, key = await keys.create(db, "test", ("vision",), ("jobs:read", "jobs:write", "usage:read"), None)
        proxy = Proxy(port)
        await proxy.start()
        try:
            yield Remote(proxy, db, key)
        finally:
            await proxy.stop()


@pytest.fixture
def behind(database: Any, monkeypatch: pytest.MonkeyPatch) -> Behind:
    """Runs `async def test(remote)`."""
    monkeypatch.setattr(job_details, "LOG_POLL_SECONDS", 0.05)
    monkeypatch.setattr(streaming, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(sending, "AGAIN_S", 0.05)
    monkeypatch.setattr(sending, "QUIET_S", 1.0)

    def run(test: Callable[[Remote], Coroutine[Any, Any, None]]) -> None:
        async def opened(db: Database) -> None:
            async with remote(db) as there:
                await test(there)

        database(opened)

    return run


@pytest.mark.parametrize("fault", FAULTS)
def test_a_submission_is_made_once_whatever_happens_on_the_way(behind: Behind, fault: str) -> None:
    async def test(remote: Remote) -> None:
        for times in (1, 3):
            remote.proxy.faults.extend([fault] * times)
            job = await remote.ask(lambda client: client.submit_job(**JOB))
            assert (job.state, job.replayed) == (JobState.QUEUED, False)
            remote.proxy.faults.extend([fault] * times)
            assert (await remote.ask(lambda client, job=job: client.job(job.id))).id == job.id
            remote.proxy.faults.extend([fault] * times)
            assert (await remote.ask(lambda client, job=job: client.cancel_job(job.id))).state == "cancelled"
        assert len((await jobs.jobs(remote.db, jobs.JobFilter(None), None, 10)).jobs) == 2

    behind(test)


@pytest.mark.parametrize("fault", [*SILENT, "resets after the effect", "504 after the effect", "502"])
def test_a_submission_without_an_answer_says_how_to_ask_what_became_of_it(behind: Behind, fault: str) -> None:
    async def test(remote: Remote) -> None:
        remote.proxy.faults.extend([fault] * 3)

        def submit(client: Client) -> Any:
            with pytest.raises(GpupoolClientError) as raised:
                client.submit_job(array=3, **JOB)
            return raised.value

        error = await remote.ask(submit, retry_for=0.0)
        remote.proxy.faults.clear()
        assert error.no_answer
        assert not isinstance(error, NotReached)
        assert "\x1b" not in str(error)
        key = error.idempotency_key
        found = await remote.ask(lambda client: list(client.jobs(idempotency_key=key)))
        assert len(found) == (3 if "after" in fault else 0)
        again = await remote.ask(lambda client: client.submit_job(idempotency_key=key, array=3, **JOB))
        assert again.replayed == bool(found)
        assert len(again.job_ids) == 3
        assert {job.id for job in found} <= set(again.job_ids)

    behind(test)


def test_what_was_sent_before_the_queue_went_is_not_called_unsent(behind: Behind) -> None:
    async def test(remote: Remote) -> None:
        remote.proxy.faults.append("stalls after")

        def submit(client: Client) -> Any:
            with pytest.raises(LostContact) as raised:
                client.submit_job(**JOB)
            return raised.value

        asking = asyncio.create_task(remote.ask(submit, timeout=1.0, retry_for=3.0))
        while not (await jobs.jobs(remote.db, jobs.JobFilter(None), None, 1)).jobs:
            await asyncio.sleep(0.05)
        await remote.proxy.stop()
        error = await asking
        assert not isinstance(error, NotReached)
        await remote.proxy.start()
        key = error.idempotency_key
        assert len(await remote.ask(lambda client: list(client.jobs(idempotency_key=key)))) == 1

    behind(test)


def test_what_was_never_sent_is_said_so(behind: Behind) -> None:
    async def test(remote: Remote) -> None:
        await remote.proxy.stop()

        def ask(client: Client) -> Any:
            with pytest.raises(NotReached) as raised:
                client.submit_job(**JOB)
            return raised.value

        error = await remote.ask(ask, connect_for=0.3)
        assert (error.refused, error.loopback, error.address) == (True, True, remote.proxy.url)

    behind(test)


@pytest.mark.parametrize("command", [("watch",), ("logs", "--follow")])
def test_who_follows_a_job_waits_for_a_queue_that_is_being_started(
    behind: Behind, command: tuple[str, ...]
) -> None:
    async def test(remote: Remote) -> None:
        id = await remote.running("one")
        await remote.ends(id)
        await remote.proxy.stop()
        address = ("--server", remote.proxy.url)
        following = await asyncio.create_subprocess_exec(
            str(GPUPOOL), "jobs", *command, id, *address,
            env={**os.environ, "GPUPOOL_KEY": remote.key}, stdout=PIPE, stderr=PIPE,
        )  # fmt: skip
        assert following.stderr is not None
        assert b"asking again" in await following.stderr.readline()
        await remote.proxy.start()
        stdout, _ = await following.communicate()
        assert following.returncode == 0
        assert (b"succeeded" if command == ("watch",) else b"one\n") in stdout

    behind(test)


def test_a_wait_lasts_as_long_as_the_job(behind: Behind, caplog: pytest.LogCaptureFixture) -> None:
    async def test(remote: Remote) -> None:
        id = await remote.running()
        waiting = asyncio.create_task(remote.ask(lambda client: client.job(id).wait(), retry_for=0.0))
        await asyncio.sleep(0.5)
        remote.proxy.faults.extend(FAULTS)
        while remote.proxy.faults:
            await asyncio.sleep(0.05)
        await remote.proxy.stop()
        await asyncio.sleep(7)
        await remote.proxy.start()
        await remote.ends(id)
        job = await waiting
        assert (job.state, job.client.lost_after) == (JobState.SUCCEEDED, 3600)
        said = [record.getMessage() for record in caplog.records if record.name == "gpupool.client"]
        assert any("asking again" in line and remote.proxy.url in line for line in said)
        assert len(said) <= 4, "an outage is said once"

    caplog.set_level("INFO")
    behind(test)


def test_a_wait_ends_in_time_whatever_the_queue_does(behind: Behind) -> None:
    async def test(remote: Remote) -> None:
        id = await remote.running()
        for fault in ("stalls before", "503", "resets at once"):
            remote.proxy.faults = deque([fault] * 1000)

            def wait(job: Job) -> float:
                began = time.monotonic()
                with pytest.raises(WaitTimeout):
                    job.wait(timeout=1.5)
                return time.monotonic() - began

            remote.proxy.faults.clear()
            job = await remote.ask(lambda client: client.job(id), timeout=30.0)
            remote.proxy.faults = deque([fault] * 1000)
            assert 1.0 < await asyncio.to_thread(wait, job) < 15
        remote.proxy.faults = deque(["502"] * 1000)
        lost = Client(remote.proxy.url, key=remote.key, lost_after=1.0)
        remote.proxy.faults.clear()
        job = await asyncio.to_thread(lost.job, id)
        await remote.proxy.stop()
        with pytest.raises(LostContact):
            await asyncio.to_thread(job.wait)
        lost.close()

    behind(test)


LINES = [
    f"{number} {text}"
    for number in range(120)
    for text in ("10 %\r20 %\r", "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029 é", "", "x" * 200)
]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_no_line_of_an_output_is_lost_or_comes_twice(behind: Behind, kind: str) -> None:
    async def test(remote: Remote) -> None:
        seed = random.randrange(10**6)
        draw = random.Random(seed)
        id = await remote.running()
        remote.proxy.cuts.extend(draw.randrange(1, 4000) for _ in range(40))

        async def print_lines() -> None:
            at = 0
            while at < len(LINES):
                size = draw.randrange(1, 12)
                await logs.append(remote.db, id, 1, LINES[at : at + size])
                at += size
                await asyncio.sleep(0.02)
            await remote.ends(id)

        printing = asyncio.create_task(print_lines())
        if kind == "sync":
            found = await remote.ask(lambda client: list(client.logs(id, follow=True)), timeout=5.0)
        else:
            async with AsyncClient(remote.proxy.url, key=remote.key) as client:
                found = [line async for line in client.logs(id, follow=True)]
        await printing
        assert found == LINES, seed
        remote.proxy.cuts.extend(draw.randrange(1, 4000) for _ in range(10))
        assert await remote.ask(lambda client: list(client.logs(id))) == LINES, seed

    behind(test)


def test_a_quiet_output_is_followed_through_proxies_and_restarts(behind: Behind) -> None:
    async def test(remote: Remote) -> None:
        remote.proxy.idle_s = 0.6  # three heartbeats, as 30 s
        id = await remote.running("one")
        following = asyncio.create_task(remote.ask(lambda client: list(client.logs(id, follow=True))))
        await asyncio.sleep(2)
        streams = [line for line in remote.proxy.asked if "/logs" in line]
        assert len(streams) == 1, "heartbeats keep a quiet stream"
        await remote.proxy.stop()
        await logs.append(remote.db, id, 1, ["two"])
        await asyncio.sleep(0.5)
        remote.proxy.faults.extend(["503", "stalls before", "resets within the header"])
        await remote.proxy.start()
        await asyncio.sleep(2)
        await logs.append(remote.db, id, 1, ["three"])
        await remote.ends(id)
        assert await following == ["one", "two", "three"]

    behind(test)


def test_a_stream_that_is_silent_is_opened_again(
    behind: Behind, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection may be one that a firewall has forgotten. Its silence is an outage, and said."""

    async def test(remote: Remote) -> None:
        id = await remote.running("one")
        streaming.HEARTBEAT_SECONDS = 600  # restored by the fixture
        following = asyncio.create_task(remote.ask(lambda client: list(client.logs(id, follow=True))))
        await asyncio.sleep(2.5)
        assert len([line for line in remote.proxy.asked if "/logs" in line]) >= 2
        await remote.ends(id)
        assert await following == ["one"]
        said = [record.getMessage() for record in caplog.records if record.name == "gpupool.client"]
        assert "asking again" in said[0]
        assert "answers again after" in said[1]

    caplog.set_level("INFO")
    monkeypatch.setattr(sending, "SAID_S", sending.QUIET_S / 2)
    behind(test)


def test_events_have_every_line_break_of_people(behind: Behind) -> None:
    """Names and reasons have them; one that ended a line would end the stream for good."""

    async def test(remote: Remote) -> None:
        reason = "a\u2028b\x85c\x0bd"
        job = await remote.ask(lambda client: client.submit_job(**JOB))
        change = "UPDATE gpu_events SET data = data || jsonb_build_object('reason', %s::text) RETURNING id"
        await sql(remote.db, change, reason)
        epoch = await lead(remote.db, outbox.ROLE, "test", 60)
        assert epoch is not None
        await outbox.place(remote.db, epoch)
        event = await remote.ask(lambda client: next(client.events(after=0)))
        assert (event.job, event.change["reason"]) == (job.id, reason)

    behind(test)


def test_a_text_reader_gets_the_lines_alone(behind: Behind) -> None:
    """curl, and other readers that do not ask for a stream of events."""

    async def test(remote: Remote) -> None:
        id = await remote.running("one", "", "10 %\r20 %")
        await logs.append(remote.db, id, 1, ["two", ""])
        await remote.ends(id)
        async with AsyncClient(remote.proxy.url, key=remote.key) as client:
            plain = await client._http.get(f"/api/v1/gpu-jobs/{id}/logs")
            assert plain.text == "one\n\n10 %\r20 %\ntwo\n\n"
            assert plain.headers["x-accel-buffering"] == "no"

    behind(test)
