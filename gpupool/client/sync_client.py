"""`Client`: sends the operations, one after the other. What is sent and read is in `operations`.

`async_client` is the same for asyncio; the two change together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
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


def _sends(build: Callable[_P, Call[_T]]) -> Callable[Concatenate[Client, _P], _T]:
    """A method that sends what `build` makes, and returns what the answer means."""

    def method(self: Client, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return self._send(build(*args, **kwargs))

    return sending.documented(method, build)


def _gives_job(build: Callable[_P, Call[Data]]) -> Callable[Concatenate[Client, _P], Job]:
    """A method that sends what `build` makes, and returns the job that is the answer."""

    def method(self: Client, /, *args: _P.args, **kwargs: _P.kwargs) -> Job:
        return made(Job, self._send(build(*args, **kwargs)), client=self)

    return sending.documented(method, build)


class Client(sending.Connected[httpx2.Client]):
    """The queue, asked from ordinary code. Close it, or use it in a `with` statement."""

    _connect = httpx2.Client

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

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def submit_job(self, *, idempotency_key: str | None = None, **spec: Unpack[JobSpec]) -> Job:
        """Submit a job. It is retried where that is safe; an `idempotency_key` of your own makes it so across
        processes too."""
        call = operations.submit(self._settings.with_project(spec), idempotency_key)
        return made(Job, self._send(call), client=self)

    def validate_job(self, **spec: Unpack[JobSpec]) -> Forecast:
        """Whether a job would be accepted, what it would cost, and what it would wait for."""
        return self._send(operations.validate(self._settings.with_project(spec)))

    def jobs(self, *states: str, page_size: int = 50, **filter: Unpack[JobFilter]) -> Iterator[Job]:
        """The jobs in `states` (default: all), newest first, read a page at a time."""
        cursor: str | None = None
        while True:
            page = self._send(operations.jobs(states, cursor, page_size, **filter))
            yield from (made(Job, data, client=self) for data in page.jobs)
            cursor = page.next
            if cursor is None:
                return

    def logs(self, id: str, follow: bool = False, attempt: int | None = None) -> Iterator[str]:
        """A job's output, line by line; with `follow` until it has ended."""
        call = operations.logs(id, follow, attempt)
        response = self._open(call, stream=True, quiet_s=None if follow else self._settings.timeout_s)
        with closing(response):
            try:
                yield from response.iter_lines()
            except httpx2.HTTPError as error:
                raise sending.error_for(call, error) from error

    def events(self, after: int | None = None) -> Iterator[Event]:
        """Events as they happen, without end: from now on, or after a position. Raises Gone where those after
        it were pruned."""
        position = after
        while True:
            reader = EventReader(position)
            response = self._open(operations.events(position), stream=True, quiet_s=sending.QUIET_S)
            with closing(response), suppress(httpx2.HTTPError):
                for line in response.iter_lines():
                    event = reader.feed(line)
                    position = reader.position
                    if event is not None:
                        yield event
            time.sleep(sending.AGAIN_S)

    def _send(self, call: Call[_T]) -> _T:
        return sending.parsed(call, self._open(call, stream=False, quiet_s=self._settings.timeout_s))

    def _open(self, call: Call[Any], stream: bool, quiet_s: float | None) -> httpx2.Response:
        """The answer to `call`, sent again where that is safe; with `stream` it is yet to be read."""
        retries = sending.Retries(call, self._settings.retry_s)
        timeout = httpx2.Timeout(self._settings.timeout_s, read=quiet_s)
        request = sending.built(self._http, call, timeout)
        while True:
            failure: httpx2.Response | httpx2.HTTPError
            try:
                response = self._http.send(request, stream=stream)
                self.notices = sending.notices(response)
                if response.is_success:
                    return response
                response.read()
                failure = response
            except httpx2.HTTPError as error:
                failure = error
            pause = retries.pause(failure)
            if pause is None:
                raise sending.error_for(call, failure)
            time.sleep(pause)


def _own(method: Callable[Concatenate[Client, str, _P], _T]) -> Callable[Concatenate[Job, _P], _T]:
    """A method of the client, for this job."""

    def own(self: Job, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return method(self.client, self.id, *args, **kwargs)

    return sending.documented(own, method, given=2)


@dataclass(frozen=True, kw_only=True)
class Job(JobFields):
    """A job as the queue last showed it; methods that change or read it return a new one."""

    client: Client = field(repr=False, compare=False)

    refresh = _own(Client.job)
    cancel = _own(Client.cancel_job)
    logs = _own(Client.logs)
    why = _own(Client.why)
    result = _own(Client.result)
    history = _own(Client.history)

    def set_priority(self, priority: JobPriority | str) -> Job:
        """Change its priority while it is queued. Raises Conflict where it has changed since it was read."""
        return self.client.set_priority(self.id, priority, self.version)

    def wait(self, timeout: float | None = None) -> Job:
        """The job when it has ended, however it did. Raises WaitTimeout after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        for pause in sending.wait_pauses():
            job = self.refresh()
            if job.ended:
                return job
            left = pause if end is None else min(pause, end - time.monotonic())
            if left <= 0:
                raise WaitTimeout(f"job {self.id} is {job.state} after {timeout} s")
            time.sleep(left)
        raise AssertionError("unreachable")
