"""What each caller has its share of, and what counts against whom."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest

from gpupool.queue.api import explanations, stream
from gpupool.queue.api.client_address import client_address
from gpupool.queue.api.concurrency import ConcurrencyLimits
from gpupool.queue.api.problems import ApiProblem
from gpupool.queue.api.request_limits import AtOnce
from gpupool.queue.store import keys
from tests.queue.api.served import HTTP_JOB, Served, listening, problem

JOBS = "/api/v1/gpu-jobs"


async def key_of(served: Served, name: str) -> dict[str, str]:
    return {
        "X-Api-Key": (await keys.create(served.db, name, ["vision"], ["jobs:read", "jobs:write"], None))[1]
    }


def test_each_caller_has_so_many_streams(api: Any) -> None:
    async def test(served: Served) -> None:
        one, other = await key_of(served, "one"), await key_of(served, "other")
        job = (await served.submit(one))["id"]
        addresses = ["/api/v1/events", f"{JOBS}/{job}/logs?follow=true"]
        async with listening(served.app) as client, AsyncExitStack() as opened:

            async def open(headers: dict[str, str], number: int) -> httpx2.Response:
                return await opened.enter_async_context(
                    client.stream("GET", addresses[number % 2], headers=headers)
                )

            statuses = Counter([(await open(one, number)).status_code for number in range(40)])
            assert statuses == {200: 32, 429: 8}
            refused = await open(one, 0)
            await refused.aread()
            assert (problem(refused), refused.headers["retry-after"]) == ("rate-limited", "1")
            assert (await open(other, 0)).status_code == 200
            assert (await client.get(JOBS, headers=one)).status_code == 200
            await opened.aclose()
            await asyncio.sleep(1.5)
            assert (await open(one, 0)).status_code == 200, "those that have ended count no longer"

    api(test, dev=False)


def test_a_stream_that_never_begins_holds_nothing(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LONGEST_SECONDS", 0.0)

    async def test(served: Served) -> None:
        for _ in range(70):
            assert (await served.client.get("/api/v1/events")).status_code == 200
            gone = await served.client.get("/api/v1/events?after=77")
            assert gone.status_code == 410

    api(test)


def test_explanations_are_shared_and_each_caller_has_so_many(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_out, go_on = list[str](), threading.Event()
    go_on.set()

    def slow(case: Any, *counted: Any) -> Any:
        worked_out.append(case.job.job)
        go_on.wait(10)
        return explain(case, *counted)

    explain = explanations.explain
    monkeypatch.setattr(explanations, "explain", slow)
    monkeypatch.setattr(explanations, "ASKED_EACH", 4)

    async def test(served: Served) -> None:
        one, other = await key_of(served, "one"), await key_of(served, "other")
        ids = [(await served.submit(one))["id"] for _ in range(6)]

        async def why(id: str, key: dict[str, str]) -> int:
            return (await served.client.get(f"{JOBS}/{id}/why", headers=key)).status_code

        assert (
            await asyncio.gather(*(why(ids[0], key) for key in (one, other) for _ in range(4))) == [200] * 8
        )
        assert worked_out == [ids[0]], "one for all who ask within a second"
        go_on.clear()
        asked = asyncio.gather(
            *(why(id, one) for id in ids[1:]),
            *(served.client.post(f"{JOBS}:validate", json=HTTP_JOB, headers=one) for _ in range(3)),
            why(ids[1], other),
        )
        await asyncio.sleep(1)
        go_on.set()
        answers = await asked
        assert answers.pop() == 200, "others are not refused"
        statuses = [getattr(answer, "status_code", answer) for answer in answers]
        assert statuses.count(200) == 4
        assert statuses.count(429) == 4

    api(test, dev=False)


def test_one_callers_requests_wait_for_each_other_alone(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    working = asyncio.Event()

    async def slow(*_: Any) -> None:
        await working.wait()
        raise ApiProblem("not-found", "at last")

    monkeypatch.setattr("gpupool.queue.store.jobs.result", slow)

    async def test(served: Served) -> None:
        one, other = await key_of(served, "one"), await key_of(served, "other")
        job = (await served.submit(one))["id"]

        def ask() -> asyncio.Task[httpx2.Response]:
            return asyncio.create_task(served.client.get(f"{JOBS}/{job}/result", headers=one))

        many = [ask() for _ in range(20)]
        await asyncio.sleep(0.5)
        assert (await served.client.get(JOBS, headers=other)).status_code == 200
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(served.client.get(f"{JOBS}/{job}", headers=one), 0.3)
        many += [ask() for _ in range(140)]
        await asyncio.sleep(1)
        refused = [task.result() for task in many if task.done()]
        said = {(problem(answer), answer.headers["retry-after"]) for answer in refused}
        assert (len(refused), said) == (32, {("rate-limited", "1")})
        assert (await served.client.get(JOBS, headers=other)).status_code == 200
        working.set()
        assert Counter([(await task).status_code for task in many]) == {404: 128, 429: 32}
        assert (await served.client.get(f"{JOBS}/{job}", headers=one)).status_code == 200
        context = served.app.state.context
        assert not context.concurrency._taken
        assert not context.requests._held

    api(test, dev=False)


def test_bodies_that_are_under_way_are_bounded_for_each_caller(api: Any) -> None:
    body = json.dumps(HTTP_JOB | {"request_json": "x" * 1_000_000}).encode()

    async def test(served: Served) -> None:
        one, other = await key_of(served, "one"), await key_of(served, "other")
        go_on = asyncio.Event()

        async def slow() -> Any:
            yield body[:-10]
            await go_on.wait()
            yield body[-10:]

        headers = {"Content-Type": "application/json"}
        sent = [
            asyncio.create_task(served.client.post(JOBS, content=slow(), headers=headers | one))
            for _ in range(12)
        ]
        await asyncio.sleep(1)
        assert (await served.client.post(JOBS, content=body, headers=headers | other)).status_code == 201
        go_on.set()
        answers = [await task for task in sent]
        assert Counter(answer.status_code for answer in answers) == {201: 8, 429: 4}
        assert (await served.client.post(JOBS, content=body, headers=headers | one)).status_code == 201
        assert not served.app.state.context.bodies._held

    api(test, dev=False)


def test_invalid_credentials_are_counted_exactly_and_shut_out_no_valid_one(api: Any) -> None:
    async def test(served: Served) -> None:
        valid = await key_of(served, "valid")

        async def ask(headers: dict[str, str]) -> str:
            answer = await served.client.get(JOBS, headers=headers)
            return "" if answer.status_code == 200 else problem(answer)

        wrong = [{"X-Api-Key": f"gpk_{number:012}_{'x' * 43}"} for number in range(150)]
        said = Counter(await asyncio.gather(*map(ask, wrong)))
        assert said == {"unauthenticated": 60, "rate-limited": 90}
        assert await ask(valid) == "", "that was never seen before"
        assert await ask({}) == "rate-limited"
        served.clock.forward(10)
        assert Counter(await asyncio.gather(*map(ask, wrong)))["unauthenticated"] == 20

    api(test, dev=False)


def test_the_same_wrong_key_is_looked_up_once(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = list[str]()
    find = keys.find

    async def counted(db: Any, presented: str, now: Any) -> Any:
        looked_up.append(presented)
        return await find(db, presented, now)

    async def test(served: Served) -> None:
        monkeypatch.setattr("gpupool.queue.store.keys.find", counted)
        wrong = {"X-Api-Key": f"gpk_{'a' * 12}_{'b' * 43}"}
        await asyncio.gather(*(served.client.get(JOBS, headers=wrong) for _ in range(30)))
        assert len(looked_up) == 1
        served.clock.forward(5)
        await served.client.get(JOBS, headers=wrong)
        assert len(looked_up) == 2

    api(test, dev=False)


TRUSTED = ("10.0.0.0/8", "2001:db8::/32")


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", ["203.0.113.9"], "192.0.2.1"),
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["1.1.1.1", "203.0.113.9, 10.2.3.4"], "203.0.113.9"),
        ("10.0.0.1", ["10.9.9.9"], "10.9.9.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["x, y"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9, evil"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9:4711"], "203.0.113.9"),
        ("10.0.0.1", ["[2001:db9::7]:4711"], "2001:db9::7"),
        ("::ffff:10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("2001:db8::1", ["2001:DB9::7"], "2001:db9::7"),
        ("", ["203.0.113.9"], ""),
        ("10.0.0.1", ["," * 30_000 + "203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["1.1.1.1," + "10.0.0.2," * 5000], "10.0.0.1"),
    ],
)
def test_the_rightmost_address_that_is_no_trusted_proxy_counts(
    peer: str, forwarded: Sequence[str], address: str
) -> None:
    assert client_address(peer, forwarded, TRUSTED) == address
    assert client_address(peer, forwarded, ()) == peer


def test_only_proxies_of_the_file_say_where_requests_come_from(api: Any) -> None:
    async def test(served: Served) -> None:
        async def wrong(forwarded: str) -> str:
            headers = {"X-Api-Key": "gpk_wrong", "X-Forwarded-For": forwarded}
            return problem(await served.client.get(JOBS, headers=headers))

        said = [await wrong(f"9.9.9.9, 203.0.113.{number}") for number in range(100)]
        limited = "rate-limited" in said
        assert limited != bool(served.app.state.context.plan().queue.trusted_proxies)
        assert [await wrong("9.9.9.9, 203.0.113.200") for _ in range(61)][-1] == "rate-limited"

    api(test, dev=False)
    api(test, dev=False, queue={"trusted_proxies": ("127.0.0.0/8",)})


def test_what_is_held_is_given_back_whatever_happens() -> None:
    held = AtOnce("things", each=2, all=3)
    for _ in range(3):
        with held.hold("a") as mine, held.hold("b") as other, held.hold("c") as third:
            mine.take(2)
            with pytest.raises(ApiProblem, match="2 things at once"):
                mine.take()
            other.take()
            with pytest.raises(ApiProblem, match="3 things are under way"):
                third.take()
        assert not held._held


def test_slots_are_taken_in_order_and_forgotten() -> None:
    async def steps() -> None:
        limits, order = ConcurrencyLimits[str](1), list[int]()

        async def work(number: int) -> None:
            async with limits.of("a"):
                order.append(number)
                await asyncio.sleep(0.01)

        tasks = [asyncio.create_task(work(number)) for number in range(5)]
        await asyncio.sleep(0)
        tasks[2].cancel()
        async with asyncio.timeout(1), limits.of("b"):
            pass
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order == [0, 1, 3, 4]
        assert not limits._taken

    asyncio.run(steps())
