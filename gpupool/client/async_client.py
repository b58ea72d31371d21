"""`AsyncClient`: sends the operations from asyncio. What is sent and read is in `operations`.

`sync_client` is the same for ordinary code; the two change together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

import httpx2

from gpupool.client import operations, sending
from gpupool.client.errors import WaitTimeout
from gpupool.client.event_stream import EventReader
from gpupool.client.operations import Call, Data
from gpupool.client.values import Event, Forecast, JobFields, JobFilter, JobPriority, JobSpec, made

_T = TypeVar("_T")
_P = ParamSpec("_P")
Answered = Coroutine[Any, Any, _T]


def _sends(build: Callable[_P, Call[_T]]) -> Callable[Concatenate[AsyncClient, _P], Answered[_T]]:
    """A method that sends what `build` makes, and returns what the answer means."""

    async def method(self: AsyncClient, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self._send(build(*args, **kwargs))

    return sending.documented(method, build)


def _gives_job(build: Callable[_P, Call[Data]]) -> Callable[Concatenate[AsyncClient, _P], Answered[AsyncJob]]:
    """A method that sends what `build` makes, and returns the job that is the answer."""

    async def method(self: AsyncClient, /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncJob:
        return made(AsyncJob, await self._send(build(*args, **kwargs)), client=self)

    return sending.documented(method, build)


class AsyncClient(sending.Connected[httpx2.AsyncClient]):
    """The queue, asked from asyncio. Close it, or use it in an `async with` statement."""

    _connect = httpx2.AsyncClient

    job = _gives_job(operations.job)
    cancel_job = _gives_job(operations.cancel)
    set_priority = _gives_job(operations.set_priority)
    why = _sends(operations.why)
    result = _sends(operations.result)
    history = _sends(operations.history)
    pools = _sends(operations.pools)
    usage = _sends(operations.usage)
    recommendations = _sends(operations.recommendations)
    create_ray_cluster = _sends(operations.create_ray_cluster)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def submit_job(self, *, idempotency_key: str | None = None, **spec: Unpack[JobSpec]) -> AsyncJob:
        """Submit a job. It is retried where that is safe; an `idempotency_key` of your own makes it so across
        processes too."""
        call = operations.submit(self._settings.with_project(spec), idempotency_key)
        return made(AsyncJob, await self._send(call), client=self)

    async def validate_job(self, **spec: Unpack[JobSpec]) -> Forecast:
        """Whether a job would be accepted, what it would cost, and what it would wait for."""
        return await self._send(operations.validate(self._settings.with_project(spec)))

    async def jobs(
        self, *states: str, page_size: int = 50, **filter: Unpack[JobFilter]
    ) -> AsyncIterator[AsyncJob]:
        """The jobs in `states` (default: all), newest first, read a page at a time."""
        cursor: str | None = None
        while True:
            page = await self._send(operations.jobs(states, cursor, page_size, **filter))
            for data in page.jobs:
                yield made(AsyncJob, data, client=self)
            cursor = page.next
            if cursor is None:
                return

    async def logs(self, id: str, follow: bool = False, attempt: int | None = None) -> AsyncIterator[str]:
        """A job's output, line by line; with `follow` until it has ended."""
        call = operations.logs(id, follow, attempt)
        response = await self._open(call, stream=True, quiet_s=None if follow else self._settings.timeout_s)
        async with aclosing(response):
            try:
                async for line in response.aiter_lines():
                    yield line
            except httpx2.HTTPError as error:
                raise sending.error_for(call, error) from error

    async def events(self, after: int | None = None) -> AsyncIterator[Event]:
        """Events as they happen, without end: from now on, or after a position. Raises Gone where those after
        it were pruned."""
        position = after
        while True:
            reader = EventReader(position)
            response = await self._open(operations.events(position), stream=True, quiet_s=sending.QUIET_S)
            async with aclosing(response):
                with suppress(httpx2.HTTPError):
                    async for line in response.aiter_lines():
                        event = reader.feed(line)
                        position = reader.position
                        if event is not None:
                            yield event
            await asyncio.sleep(sending.AGAIN_S)

    async def _send(self, call: Call[_T]) -> _T:
        return sending.parsed(call, await self._open(call, stream=False, quiet_s=self._settings.timeout_s))

    async def _open(self, call: Call[Any], stream: bool, quiet_s: float | None) -> httpx2.Response:
        """The answer to `call`, sent again where that is safe; with `stream` it is yet to be read."""
        retries = sending.Retries(call, self._settings.retry_s)
        timeout = httpx2.Timeout(self._settings.timeout_s, read=quiet_s)
        request = sending.built(self._http, call, timeout)
        while True:
            failure: httpx2.Response | httpx2.HTTPError
            try:
                response = await self._http.send(request, stream=stream)
                self.notices = sending.notices(response)
                if response.is_success:
                    return response
                await response.aread()
                failure = response
            except httpx2.HTTPError as error:
                failure = error
            pause = retries.pause(failure)
            if pause is None:
                raise sending.error_for(call, failure)
            await asyncio.sleep(pause)


def _own(method: Callable[Concatenate[AsyncClient, str, _P], _T]) -> Callable[Concatenate[AsyncJob, _P], _T]:
    """A method of the client, for this job."""

    def own(self: AsyncJob, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return method(self.client, self.id, *args, **kwargs)

    return sending.documented(own, method, given=2)


@dataclass(frozen=True, kw_only=True)
class AsyncJob(JobFields):
    """A job as the queue last showed it; methods that change or read it return a new one."""

    client: AsyncClient = field(repr=False, compare=False)

    refresh = _own(AsyncClient.job)
    cancel = _own(AsyncClient.cancel_job)
    logs = _own(AsyncClient.logs)
    why = _own(AsyncClient.why)
    result = _own(AsyncClient.result)
    history = _own(AsyncClient.history)

    async def set_priority(self, priority: JobPriority | str) -> AsyncJob:
        """Change its priority while it is queued. Raises Conflict where it has changed since it was read."""
        return await self.client.set_priority(self.id, priority, self.version)

    async def wait(self, timeout: float | None = None) -> AsyncJob:
        """The job when it has ended, however it did. Raises WaitTimeout after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        for pause in sending.wait_pauses():
            job = await self.refresh()
            if job.ended:
                return job
            left = pause if end is None else min(pause, end - time.monotonic())
            if left <= 0:
                raise WaitTimeout(f"job {self.id} is {job.state} after {timeout} s")
            await asyncio.sleep(left)
        raise AssertionError("unreachable")
