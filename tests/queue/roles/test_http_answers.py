"""What targets answer: redirects, wishes to be asked later, and what may have been done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import aiohttp
import pytest

from gpupool.queue.domain.attempt_end import Attempt, end_of
from gpupool.queue.records import Outcome
from gpupool.queue.roles.http_answers import LONGEST_PAUSE_S, Failure, failure_by, failure_of
from gpupool.queue.roles.http_job import HttpJobs

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
LATER = format_datetime(NOW + timedelta(seconds=90), usegmt=True)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 305, 399])
def test_an_answer_that_leads_elsewhere_is_a_failure_that_names_where(status: int) -> None:
    failure = failure_of(status, {"Location": "https://ada:pass@other.example/login?token=x#y"}, NOW)
    assert failure is not None
    assert not failure.retry
    assert f"answered {status} with Location 'https://...@other.example/login'" in failure.reason
    assert "pass" not in failure.reason.replace("password", "")
    assert "token" not in failure.reason
    without = failure_of(status, {}, NOW)
    assert without is not None
    assert "without a Location" in without.reason


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 299])
def test_only_a_success_is_one(status: int) -> None:
    assert failure_of(status, {"Retry-After": "9"}, NOW) is None


@pytest.mark.parametrize(
    ("headers", "pause_s"),
    [
        ({"Retry-After": "120"}, 120),
        ({"Retry-After": " 7 "}, 7),
        ({"Retry-After": "0"}, 0),
        ({"Retry-After": "99999999999999999999"}, LONGEST_PAUSE_S),
        ({"Retry-After": LATER}, 90),
        ({"Retry-After": LATER, "Date": format_datetime(NOW - timedelta(seconds=30), usegmt=True)}, 120),
        ({"Retry-After": LATER, "Date": "yesterday"}, 90),
        ({"Retry-After": format_datetime(NOW - timedelta(days=1), usegmt=True)}, 0),
        ({"Retry-After": format_datetime(NOW + timedelta(days=9), usegmt=True)}, LONGEST_PAUSE_S),
        ({"Retry-After": "-5"}, 0),
        ({"Retry-After": "1.5"}, 0),
        ({"Retry-After": "soon"}, 0),
        ({"Retry-After": "\u0663"}, 0),
        ({"Retry-After": ""}, 0),
        ({}, 0),
    ],
    ids=ascii,
)
@pytest.mark.parametrize("status", [429, 503, 500, 408])
def test_a_target_says_when_to_come_again(status: int, headers: dict[str, str], pause_s: float) -> None:
    assert failure_of(status, headers, NOW) == Failure(f"the target answered {status}", True, pause_s)


def test_what_another_try_cannot_help_has_no_pause() -> None:
    assert failure_of(404, {"Retry-After": "9"}, NOW) == Failure("the target answered 404", False)


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


def sent_to(serve: Serve | None, **given: Any) -> Failure | None:
    """Why a target that behaves like this has not taken a callback. None: nothing listens."""

    async def test() -> Failure | None:
        server = await asyncio.start_server(serve or _cut, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        if serve is None:
            server.close()
            await server.wait_closed()
        http = HttpJobs(lambda: ("http://example",), {"example": ("127.0.0.1", port)})
        try:
            return await http.notify("http://example/x", {}, given.get("seconds", 5))
        finally:
            server.close()

    return asyncio.run(test())


async def _cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def _half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal")
    await writer.drain()
    writer.close()


async def _reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()


async def _nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
    await writer.drain()
    writer.close()


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(1)
    writer.close()


@pytest.mark.parametrize("serve", [_cut, _half, _reset, _nonsense, _silent])
def test_what_was_sent_may_have_been_done(serve: Serve) -> None:
    failure = sent_to(serve, seconds=0.5)
    assert failure is not None
    assert failure.retry
    assert "may have done" in failure.reason
    assert "can't be reached" not in failure.reason


def test_where_nobody_listens_nothing_was_done() -> None:
    failure = sent_to(None)
    assert failure is not None
    assert failure.reason.startswith("the target can't be reached: ")


def test_a_connection_that_is_not_made_in_time_reached_nobody() -> None:
    assert "can't be reached" in failure_by(aiohttp.ConnectionTimeoutError("Connection timeout")).reason
    assert "may have done" in failure_by(aiohttp.SocketTimeoutError("Timeout on reading data")).reason
    assert "may have done" in failure_by(TimeoutError()).reason


@pytest.mark.parametrize(("status", "posts"), [(301, 1), (302, 1), (303, 1), (307, 2), (308, 2)])
def test_a_post_is_sent_on_after_307_and_308_alone(status: int, posts: int) -> None:
    methods: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        methods.append(head.split()[0])
        first = len(methods) == 1
        answer = f"{status} Away\r\nLocation: /there" if first else "200 OK"
        writer.write(f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    failure = sent_to(serve)
    assert methods == [b"POST"] * posts
    assert (failure is None) is (posts == 2)
    assert failure is None or "'/there'" in failure.reason


def test_a_pause_that_is_wanted_goes_before_a_shorter_one() -> None:
    ending = Attempt(
        started=True, capacity_type="on-demand", rate_micro=1, hold_micro=1, gpu_micro=1, run_limit_s=60,
        weight=1.0, retries=3, failures=0, disruptions=0, unstarted=0, budget_limit_micro=None, spent_micro=0,
    )  # fmt: skip
    for pause, delay in ((70, 70), (2, 5)):
        outcome = Outcome("failed", "x", pause_s=pause)
        assert end_of(ending, outcome, timedelta(seconds=1), (5, 300)).delay_s == delay
