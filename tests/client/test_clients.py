"""Both clients against a queue of a few lines: they send, repeat, page, wait and follow alike."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import httpx2
import pytest

from gpupool.client import (
    AsyncClient,
    Client,
    Conflict,
    Gone,
    GPUType,
    JobPriority,
    JobState,
    TransportError,
    WaitTimeout,
)

Answer = httpx2.Response | Exception


@dataclass
class Queue:
    """Gives its answers one after the other, the last one again and again."""

    answers: list[Answer]
    asked: list[httpx2.Request] = field(default_factory=list)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        # A new one each time: a response is read once.
        return httpx2.Response(answer.status_code, headers=answer.headers, content=answer.content)


def job(state: str = "queued", **more: Any) -> httpx2.Response:
    return httpx2.Response(200, json={"id": "j1", "state": state, "tenant": "vision", "version": 3} | more)


def problem(status: int, name: str = "x", **headers: str) -> httpx2.Response:
    body = {"type": f"https://gpupool.dev/problems/{name}", "title": name, "status": status}
    return httpx2.Response(status, json=body, headers=headers)


STREAM = {"Content-Type": "text/event-stream; charset=utf-8"}
END = httpx2.Response(200, text="event: end\ndata: {}\n\n", headers=STREAM)


def output(*chunks: tuple[int, str]) -> httpx2.Response:
    """A stream of output that breaks off."""
    parts = [f"id: {number}\ndata: {json.dumps({'attempt': 1, 'text': text})}\n\n" for number, text in chunks]
    return httpx2.Response(200, text="".join(parts) + "id: 99\ndata: {", headers=STREAM)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_: float) -> None:
        return None

    monkeypatch.setattr("gpupool.client.sync_client.time.sleep", lambda _: None)
    monkeypatch.setattr("gpupool.client.async_client.asyncio.sleep", at_once)


class Plain:
    """A client whose methods are called as they are."""

    def __init__(self, queue: Queue, **options: Any) -> None:
        options = {"url": "http://queue", "transport": httpx2.MockTransport(queue), **options}
        self.client = Client(**options)

    def do(self, ask: Callable[[Any], Any]) -> Any:
        with self.client as client:
            return ask(client)

    def all(self, ask: Callable[[Any], Iterator[Any]], most: int = 100) -> list[Any]:
        with self.client as client:
            return list(islice(ask(client), most))


class Asyncio:
    """The same by asyncio."""

    def __init__(self, queue: Queue, **options: Any) -> None:
        self.options = {"url": "http://queue", "transport": httpx2.MockTransport(queue), **options}

    def do(self, ask: Callable[[Any], Any]) -> Any:
        async def run() -> Any:
            async with AsyncClient(**self.options) as client:
                return await ask(client)

        return asyncio.run(run())

    def all(self, ask: Callable[[Any], AsyncIterator[Any]], most: int = 100) -> list[Any]:
        async def run() -> list[Any]:
            found: list[Any] = []
            async with AsyncClient(**self.options) as client:
                async for one in ask(client):
                    found.append(one)
                    if len(found) == most:
                        break
            return found

        return asyncio.run(run())


either = pytest.mark.parametrize("kind", [Plain, Asyncio])


@either
def test_the_example_of_the_readme(kind: Any) -> None:
    queue = Queue([job()])
    made = kind(queue, tenant="vision", key="gpk_x").do(
        lambda client: client.submit_job(
            job_name="finetune",
            project_id="detector",
            priority=JobPriority.HIGH,
            gpu_type=GPUType.A100_80GB,
            gpu_count=4,
            container_image="...",
            container_command=["python", "train.py"],
            budget_limit_usd=100.0,
            preemptible=True,
            checkpoint_s3_path="s3://...",
        )
    )
    assert (made.id, made.state, made.version) == ("j1", JobState.QUEUED, 3)
    (asked,) = queue.asked
    assert (asked.headers["X-Tenant-Id"], asked.headers["Authorization"]) == ("vision", "Bearer gpk_x")
    body = json.loads(asked.content)
    assert (body["gpu_type"], body["priority"], body["gpu_count"]) == ("a100-80gb", "high", 4)


@either
def test_the_same_key_is_sent_until_there_is_an_answer(kind: Any) -> None:
    queue = Queue(
        [
            httpx2.ConnectError("refused"),
            problem(503, "unavailable"),
            problem(429, **{"Retry-After": "1"}),
            job(),
        ]
    )
    kind(queue).do(lambda client: client.submit_job(container_image="x"))
    assert len(queue.asked) == 4
    assert len({request.headers["Idempotency-Key"] for request in queue.asked}) == 1
    assert len({request.content for request in queue.asked}) == 1


@either
def test_what_is_not_safe_is_sent_once(kind: Any) -> None:
    queue = Queue([problem(503), job()])
    with pytest.raises(Exception, match="x"):
        kind(queue).do(lambda client: client.set_priority("j1", "low", version=3))
    assert len(queue.asked) == 1


@either
def test_errors_are_raised_as_they_are(kind: Any) -> None:
    with pytest.raises(Conflict, match="not-queued"):
        kind(Queue([problem(409, "not-queued")])).do(lambda client: client.set_priority("j1", "low"))
    with pytest.raises(TransportError, match=r"GET /api/v1/gpu-jobs/j1: no answer from the queue: refused"):
        kind(Queue([httpx2.ConnectError("refused")]), retry_for=0).do(lambda client: client.job("j1"))


@either
def test_jobs_are_read_page_by_page(kind: Any) -> None:
    def page(*ids: str, next: str | None) -> httpx2.Response:
        jobs = [{"id": id, "state": "queued", "tenant": "vision"} for id in ids]
        return httpx2.Response(200, json={"jobs": jobs, "next": next})

    queue = Queue([page("a", "b", next="c1"), page("c", next=None)])
    found = kind(queue).all(lambda client: client.jobs("queued", page_size=2))
    assert [one.id for one in found] == ["a", "b", "c"]
    assert [request.url.params.get("cursor") for request in queue.asked] == [None, "c1"]
    assert queue.asked[0].url.params["state"] == "queued"


@either
def test_wait_returns_the_job_that_has_ended(kind: Any) -> None:
    queue = Queue([job(), job("running"), job("failed", exit_code=2)])

    def ask(client: Any) -> Any:
        if kind is Plain:
            return client.job("j1").wait()

        async def run() -> Any:
            return await (await client.job("j1")).wait()

        return run()

    ended = kind(queue).do(ask)
    assert (ended.state, ended.exit_code, ended.succeeded) == (JobState.FAILED, 2, False)


@either
def test_wait_gives_up_in_time(kind: Any) -> None:
    def ask(client: Any) -> Any:
        if kind is Plain:
            return client.job("j1").wait(timeout=0)

        async def run() -> Any:
            return await (await client.job("j1")).wait(timeout=0)

        return run()

    with pytest.raises(WaitTimeout, match="job j1 is running after 0 s") as raised:
        kind(Queue([job("running")])).do(ask)
    assert isinstance(raised.value, TimeoutError)


@either
def test_logs_are_lines(kind: Any) -> None:
    queue = Queue([problem(502), output((4, "one\r1\ntwo"), (7, "")), END])
    assert kind(queue).all(lambda client: client.logs("j1", follow=True)) == ["one\r1", "two", ""]
    assert [request.url.params.get("after") for request in queue.asked] == [None, None, "7"]
    assert queue.asked[-1].url.params["follow"] == "true"


@either
def test_an_answer_that_is_no_stream_is_an_error(kind: Any) -> None:
    with pytest.raises(TransportError, match="not one of the queue's streams"):
        kind(Queue([httpx2.Response(200, html="welcome")])).all(lambda client: client.logs("j1"))


@either
def test_events_go_on_where_the_stream_ended(kind: Any) -> None:
    def stream(position: int) -> httpx2.Response:
        event = {"id": "e", "type": "x.enqueued", "subject": "j", "seq": 1, "tenant": "t", "data": {}}
        text = f"id: {position}\ndata: {json.dumps(event)}\n\nid: 99\ndata: brok"
        return httpx2.Response(200, text=text, headers=STREAM)

    queue = Queue([stream(4), stream(5), httpx2.ConnectError("x"), stream(6)])
    found = kind(queue).all(lambda client: client.events(after=3), most=3)
    assert [event.position for event in found] == [4, 5, 6]
    assert [request.headers["Last-Event-ID"] for request in queue.asked] == ["3", "4", "5", "5"]


@either
def test_events_that_are_gone_are_an_error(kind: Any) -> None:
    with pytest.raises(Gone):
        kind(Queue([problem(410, "events-pruned")])).all(lambda client: client.events(after=1))


def test_nothing_but_httpx2_and_the_standard_library_is_imported() -> None:
    code = "import sys, gpupool.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert not [name for name in found if re.match(r"gpupool\.(?!client)", name)]
    assert not found & {"pydantic", "yaml", "rich", "typer", "fastapi"}
