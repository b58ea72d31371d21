"""`AsyncClient`: sends the operations from asyncio. What is sent and read is in `operations`.

`sync_client` is made of this module (`make schema`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

import httpx2

from . import connecting, operations, sending
from .errors import GpupoolClientError, WaitTimeout
from .event_stream import END, Frame
from .job_spec import JobPriority, JobSpec
from .operations import Call, Data
from .values import Cancelled, Event, Forecast, JobFields, JobFilter, event_of, made

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


class AsyncClient(connecting.ConnectedByLoop):
    """The queue's client for asyncio. Close it, or use it in an `async with` statement. Event loops and
    processes can share it; each opens its own connections."""

    _connect = httpx2.AsyncClient

    job = _gives_job(operations.job)
    cancel_job = _gives_job(operations.cancel)
    set_priority = _gives_job(operations.set_priority)
    find = _sends(operations.find)
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
        """Close the connections of this event loop. A later call opens new ones."""
        http = self._opened.pop(self._owner(), None)
        if http is not None:
            await http.aclose()

    async def submit_job(self, *, idempotency_key: str | None = None, **spec: Unpack[JobSpec]) -> AsyncJob:
        """Submit a job, retrying until the queue answers. Your own `idempotency_key` makes retries safe
        across processes too. If there is no answer, the error has the key that was used."""
        call = operations.submit(self._settings.with_project(spec), idempotency_key)
        return await self._submitted(call)

    async def rerun_job(
        self,
        id: str,
        *,
        unsuccessful: bool = False,
        idempotency_key: str | None = None,
        **changes: Unpack[JobSpec],
    ) -> AsyncJob:
        """Submit a job, or the jobs of an array, again with these fields changed; None means a field's
        default. With `unsuccessful`, of an array only the jobs that ended without success."""
        return await self._submitted(operations.rerun(id, changes, unsuccessful, idempotency_key))

    async def _submitted(self, call: Call[Data]) -> AsyncJob:
        retries = sending.Retries(call, self._settings)
        response = await self._open(call, retries)
        replayed = "Idempotency-Replayed" in response.headers and not retries.again
        return made(AsyncJob, sending.parsed(call, response) | {"replayed": replayed}, client=self)

    async def cancel_jobs(
        self, *states: str, everything: bool = False, **filter: Unpack[JobFilter]
    ) -> tuple[Cancelled, ...]:
        """Cancel the tenant's jobs that are in `states` and match `filter`, or `everything`."""
        cancelled: dict[str, Cancelled] = {}
        while True:
            page = await self._send(operations.cancel_jobs(states, everything, **filter))
            cancelled |= {job.id: job for job in page.jobs}
            if not page.more:
                return tuple(cancelled.values())
            await asyncio.sleep(sending.AGAIN_S if not page.jobs else 0)

    async def validate_job(self, **spec: Unpack[JobSpec]) -> Forecast:
        """Whether a job would be accepted, what it would cost, and why it would wait."""
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

    async def logs(
        self,
        id: str,
        follow: bool = False,
        attempt: int | None = None,
        tail: int | None = None,
        since: int | None = None,
    ) -> AsyncIterator[str]:
        """A job's output, line by line; with `follow` until the job has ended. `tail` and `since` limit it to
        the last lines or seconds. An interrupted stream resumes without lost or repeated lines."""
        async with aclosing(
            self._frames(lambda after: operations.logs(id, follow, attempt, after, tail, since), None)
        ) as frames:
            async for frame in frames:
                for line in frame.data["text"].split("\n"):
                    yield line

    async def events(self, after: int | None = None) -> AsyncIterator[Event]:
        """Events as they happen, without end: from now on, or after a position. Raises Gone if later events
        were pruned."""
        async with aclosing(self._frames(operations.events, after)) as frames:
            async for frame in frames:
                yield event_of(frame.data, frame.position)

    async def _frames(
        self, build: Callable[[int | None], Call[None]], position: int | None
    ) -> AsyncGenerator[Frame, None]:
        """What a stream has after `position`, to its end, over as many connections as that takes. The first
        is waited for as any answer, later ones as by one who waits for a job."""
        client, reading = self, sending.Reading(position, self._settings)
        broken: httpx2.HTTPError | None = None
        while True:
            call, owner = build(reading.position), self._owner()
            retries = sending.Retries(call, client._settings, reading.heard)
            if broken is not None:
                retries.say(broken)
            response = await client._open(call, retries, streams=True)
            async with aclosing(response):
                reading.begins(call, response)
                try:
                    async for piece in response.aiter_bytes():
                        for frame in reading.frames(piece):
                            if frame.kind == END:
                                return
                            yield frame
                        if self._owner() != owner:
                            break  # forked meanwhile: the connection is the other process's
                    broken = None
                except httpx2.HTTPError as error:
                    broken = error
            client = self.waiting()
            await asyncio.sleep(sending.AGAIN_S)

    async def _send(self, call: Call[_T]) -> _T:
        return sending.parsed(call, await self._open(call, sending.Retries(call, self._settings)))

    async def _open(
        self, call: Call[Any], retries: sending.Retries, streams: bool = False
    ) -> httpx2.Response:
        """The answer to `call`, sent again where that is safe; one that streams is yet to be read."""
        timeout_s = self._settings.timeout_s
        timeout = httpx2.Timeout(timeout_s, read=sending.QUIET_S if streams else timeout_s)
        request = sending.built(self._http, call, timeout)
        while True:
            failure: sending.Failure | None
            try:
                response = await self._http.send(request, stream=streams)
                self.notices = sending.notices(response)
                if response.is_success:
                    failure = None if streams else sending.half(response)
                    if failure is None:
                        retries.answered()
                        return response
                else:
                    await response.aread()
                    failure = response
            except httpx2.HTTPError as error:
                failure = error
            pause = retries.pause(failure)
            if pause is None:
                raise retries.error(failure)
            await asyncio.sleep(pause)


def _own(method: Callable[Concatenate[AsyncClient, str, _P], _T]) -> Callable[Concatenate[AsyncJob, _P], _T]:
    """A method of the client, for this job."""

    def own(self: AsyncJob, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return method(self.client, self.id, *args, **kwargs)

    return sending.documented(own, method, given=2)


@dataclass(frozen=True, kw_only=True)
class AsyncJob(JobFields):
    """A job as last read from the queue; methods that change or refresh it return a new one."""

    client: AsyncClient = field(repr=False, compare=False)

    refresh = _own(AsyncClient.job)
    cancel = _own(AsyncClient.cancel_job)
    rerun = _own(AsyncClient.rerun_job)
    logs = _own(AsyncClient.logs)
    why = _own(AsyncClient.why)
    result = _own(AsyncClient.result)
    history = _own(AsyncClient.history)

    async def set_priority(self, priority: JobPriority | str) -> AsyncJob:
        """Change its priority while it is queued. Raises Conflict if it has changed since it was read."""
        return await self.client.set_priority(self.id, priority, self.version)

    async def wait(self, timeout: float | None = None) -> AsyncJob:
        """Wait until the job has ended, whatever its final state. Raises WaitTimeout after `timeout` seconds,
        and LostContact if the queue does not answer for `lost_after`; the job continues."""
        end = None if timeout is None else time.monotonic() + timeout
        job = self
        for pause in sending.wait_pauses():
            left = None if end is None else end - time.monotonic()
            try:
                job = replace(await self.client.waiting(left).job(self.id), client=self.client)
            except GpupoolClientError as error:
                if left is None or not error.no_answer or left > self.client.lost_after:
                    raise
                raise WaitTimeout(f"job {self.id} was {job.state}, and {error}") from error
            if job.ended:
                return job
            left = pause if end is None else min(pause, end - time.monotonic())
            if left <= 0:
                raise WaitTimeout(f"job {self.id} is {job.state} after {timeout} s")
            await asyncio.sleep(left)
        raise AssertionError("unreachable")
