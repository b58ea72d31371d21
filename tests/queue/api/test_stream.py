"""Streams: events with resumption, and logs that are followed, over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from gpupool.queue.api import job_details, stream, streaming
from gpupool.queue.api.oidc import LEEWAY, Oidc
from gpupool.queue.domain.current import current
from gpupool.queue.store import dispatch, keys, logs, outbox
from gpupool.queue.store.database import Database
from tests.queue.api.served import Served, listening, problem
from tests.queue.api.test_credentials import AUTH, PEOPLE, Provider, token
from tests.queue.store.samples import finished, running, sql

EVENTS = "/api/v1/events"


async def placed(db: Database) -> None:
    """What the relay does."""
    epoch = await dispatch.lead(db, outbox.ROLE, "test", 60)
    assert epoch is not None
    await outbox.place(db, epoch)


async def read(response: httpx2.Response) -> AsyncIterator[tuple[int, dict[str, Any]]]:
    """(id, data) of each event of a stream."""
    fields = dict[str, str]()
    async for line in response.aiter_lines():
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
        elif "data" in fields:
            yield int(fields["id"]), json.loads(fields["data"])
            fields = {}
        else:
            fields = {}


async def some(
    events: AsyncIterator[tuple[int, dict[str, Any]]], count: int
) -> list[tuple[int, dict[str, Any]]]:
    async with asyncio.timeout(60):
        return [await anext(events) for _ in range(count)]


def test_events_are_followed_and_resumed_and_are_the_tenants_own(api: Any) -> None:
    async def test(served: Served) -> None:
        key = await served.key("vision")
        mine = [(await served.submit(key, job_name=str(number)))["id"] for number in range(3)]
        await running(served.db, tenant="serving")
        await placed(served.db)
        async with listening(served.app) as client:
            async with client.stream("GET", f"{EVENTS}?after=0", headers=key) as response:
                assert response.headers["content-type"].startswith("text/event-stream")
                events = read(response)
                first = await some(events, 3)
                assert [data["subject"] for _, data in first] == mine
                assert first[0][1]["type"] == "mlops.gpu.jobs.enqueued"
                later = await served.submit(key)
                await placed(served.db)
                assert (await some(events, 1))[0][1]["subject"] == later["id"]
            resumed = key | {"Last-Event-ID": str(first[1][0])}
            async with client.stream("GET", EVENTS, headers=resumed) as response:
                assert [data["subject"] for _, data in await some(read(response), 2)] == [
                    mine[2],
                    later["id"],
                ]
            other = await served.key("serving")
            async with client.stream("GET", f"{EVENTS}?after=0", headers=other) as response:
                assert {data["tenant"] for _, data in await some(read(response), 3)} == {"serving"}

    api(test, dev=False)


def test_events_that_are_pruned_are_gone(api: Any) -> None:
    async def test(served: Served) -> None:
        for _ in range(3):
            await served.submit()
        await placed(served.db)
        await sql(served.db, "DELETE FROM gpu_events WHERE position <= 2 RETURNING id")
        for position in ("0", "1", "4"):
            gone = await served.client.get(EVENTS, headers={"Last-Event-ID": position})
            assert (gone.status_code, problem(gone)) == (410, "events-pruned")
        wrong = await served.client.get(EVENTS, headers={"Last-Event-ID": "x"})
        assert problem(wrong) == "invalid-request"
        async with (
            listening(served.app) as client,
            client.stream("GET", EVENTS, headers={"Last-Event-ID": "2"}) as response,
        ):
            assert [number for number, _ in await some(read(response), 1)] == [3]

    api(test)


def test_a_quiet_stream_has_heartbeats_and_ends_some_time(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(streaming, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(stream, "LONGEST_SECONDS", 0.3)

    async def test(served: Served) -> None:
        response = await served.client.get(EVENTS)
        assert 2 <= response.text.count(": heartbeat\n\n") <= 6
        assert response.text.startswith("retry: 2000\nid: 0\n")
        assert "\n\nid: 0\n: heartbeat\n\n" in response.text, "a quiet reader's position moves on"

    api(test)


def test_a_log_is_followed_until_the_job_ends(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_details, "LOG_POLL_SECONDS", 0.05)

    async def test(served: Served) -> None:
        job = await running(served.db)
        await logs.append(served.db, job.id, job.attempt, ["one"])
        async with (
            listening(served.app) as client,
            client.stream("GET", f"/api/v1/gpu-jobs/{job.id}/logs?follow=true") as response,
        ):
            lines = response.aiter_lines()
            assert await asyncio.wait_for(anext(lines), 60) == "one"
            await logs.append(served.db, job.id, job.attempt, ["two", "three"])
            assert await asyncio.wait_for(anext(lines), 60) == "two"
            await finished(served.db, job, "succeeded")
            async with asyncio.timeout(60):
                assert [line async for line in lines] == ["three"]
        text = (await served.client.get(f"/api/v1/gpu-jobs/{job.id}/logs?attempt=2")).text
        assert text == ""

    api(test)


async def _until_over(response: httpx2.Response, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        async for _ in response.aiter_bytes():
            pass


def test_streams_end_soon_after_their_key_is_revoked(api: Any) -> None:
    """As it is in use: within 20 s. An open stream of another key goes on."""

    async def test(served: Served) -> None:
        job = await running(served.db)
        _, secret = await keys.create(served.db, "gone", ("vision",), ("jobs:read",), None)
        gone = {"Authorization": f"Bearer {secret}"}
        logs = f"/api/v1/gpu-jobs/{job.id}/logs?follow=true"
        async with listening(served.app) as client:
            async with (
                client.stream("GET", EVENTS, headers=gone) as one,
                client.stream("GET", logs, headers=gone) as two,
                client.stream("GET", EVENTS, headers=await served.key("vision")) as other,
            ):
                assert {one.status_code, two.status_code, other.status_code} == {200}
                moving = asyncio.create_task(_tick(served))
                await keys.revoke(served.db, secret.split("_")[1])
                await asyncio.gather(_until_over(one), _until_over(two))
                moving.cancel()
                with pytest.raises(TimeoutError):
                    await _until_over(other, 1)
            assert problem(await client.get(EVENTS, headers=gone)) == "unauthenticated"

    api(test, dev=False)


async def _tick(served: Served) -> None:
    """The test's clock moves as time does."""
    while True:
        await asyncio.sleep(0.5)
        served.clock.forward(0.5)


@pytest.mark.parametrize("what", ["expires", "loses its group", "loses its tenant"])
def test_streams_end_with_what_their_token_grants(
    api: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(streaming, "CHECK_S", 0.2)

    async def test(served: Served) -> None:
        job = await running(served.db)
        context = served.app.state.context
        plan = context.plan()
        first, *others = plan.tenants
        present = {
            "loses its group": replace(plan, tenants=(replace(first, oidc_groups=()), *others)),
            "loses its tenant": replace(plan, tenants=tuple(others)),
        }
        headers = {"Authorization": f"Bearer {token()}", "X-Tenant-Id": "vision"}
        async with (
            listening(served.app) as client,
            client.stream("GET", EVENTS, headers=headers) as one,
            client.stream("GET", f"/api/v1/gpu-jobs/{job.id}/logs?follow=true", headers=headers) as two,
        ):
            assert {one.status_code, two.status_code} == {200}
            over = [asyncio.create_task(_until_over(stream, 60)) for stream in (one, two)]
            await asyncio.sleep(1)
            assert not any(task.done() for task in over)
            if what == "expires":
                served.clock.forward(601 + LEEWAY)
            else:
                object.__setattr__(context, "current", lambda: current(present[what]))
            await asyncio.gather(*over)

    api(test, dev=False, queue=AUTH, oidc=Oidc(Provider()), vision=PEOPLE)
