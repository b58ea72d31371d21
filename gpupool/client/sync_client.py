"""`Client`: sends the operations, one after the other. What is sent and read is in `operations`.

`make schema` makes this file of `async_client`; it must not be edited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
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


class Client(connecting.Connected[httpx2.Client]):
    """The queue's client for synchronous code. Close it, or use it in a `with` statement. Threads and
    processes can share it; each process opens its own connections."""

    _connect = httpx2.Client

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

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of this process. A later call opens new ones."""
        http = self._opened.pop(self._owner(), None)
        if http is not None:
            http.close()

    def submit_job(self, *, idempotency_key: str | None = None, **spec: Unpack[JobSpec]) -> Job:
        """Submit a job, retrying until the queue answers. Your own `idempotency_key` makes retries safe
        across processes too. If there is no answer, the error has the key that was used."""
        call = operations.submit(self._settings.with_project(spec), idempotency_key)
        return self._submitted(call)

    def rerun_job(
        self,
        id: str,
        *,
        unsuccessful: bool = False,
        idempotency_key: str | None = None,
        **changes: Unpack[JobSpec],
    ) -> Job:
        """Submit a job, or the jobs of an array, again with these fields changed; None means a field's
        default. With `unsuccessful`, of an array only the jobs that ended without success."""
        return self._submitted(operations.rerun(id, changes, unsuccessful, idempotency_key))

    def _submitted(self, call: Call[Data]) -> Job:
        retries = sending.Retries(call, self._settings)
        response = self._open(call, retries)
        replayed = "Idempotency-Replayed" in response.headers and not retries.again
        return made(Job, sending.parsed(call, response) | {"replayed": replayed}, client=self)

    def cancel_jobs(
        self, *states: str, everything: bool = False, **filter: Unpack[JobFilter]
    ) -> tuple[Cancelled, ...]:
        """Cancel the tenant's jobs that are in `states` and match `filter`, or `everything`."""
        cancelled: dict[str, Cancelled] = {}
        while True:
            page = self._send(operations.cancel_jobs(states, everything, **filter))
            cancelled |= {job.id: job for job in page.jobs}
            if not page.more:
                return tuple(cancelled.values())
            time.sleep(sending.AGAIN_S if not page.jobs else 0)

    def validate_job(self, **spec: Unpack[JobSpec]) -> Forecast:
        """Whether a job would be accepted, what it would cost, and why it would wait."""
        return self._send(operations.validate(self._settings.with_project(spec)))

    def jobs(self, *states: str, page_size: int = 50, **filter: Unpack[JobFilter]) -> Iterator[Job]:
        """The jobs in `states` (default: all), newest first, read a page at a time."""
        cursor: str | None = None
        while True:
            page = self._send(operations.jobs(states, cursor, page_size, **filter))
            for data in page.jobs:
                yield made(Job, data, client=self)
            cursor = page.next
            if cursor is None:
                return

    def logs(
        self,
        id: str,
        follow: bool = False,
        attempt: int | None = None,
        tail: int | None = None,
        since: int | None = None,
    ) -> Iterator[str]:
        """A job's output, line by line; with `follow` until the job has ended. `tail` and `since` limit it to
        the last lines or seconds. An interrupted stream resumes without lost or repeated lines."""
        with closing(
            self._frames(lambda after: operations.logs(id, follow, attempt, after, tail, since), None)
        ) as frames:
            for frame in frames:
                for line in frame.data["text"].split("\n"):
                    yield line

    def events(self, after: int | None = None) -> Iterator[Event]:
        """Events as they happen, without end: from now on, or after a position. Raises Gone if later events
        were pruned."""
        with closing(self._frames(operations.events, after)) as frames:
            for frame in frames:
                yield event_of(frame.data, frame.position)

    def _frames(
        self, build: Callable[[int | None], Call[None]], position: int | None
    ) -> Generator[Frame, None]:
        """What a stream has after `position`, to its end, over as many connections as that takes. The first
        is waited for as any answer, later ones as by one who waits for a job."""
        client, reading = self, sending.Reading(position, self._settings)
        broken: httpx2.HTTPError | None = None
        while True:
            call, owner = build(reading.position), self._owner()
            retries = sending.Retries(call, client._settings, reading.heard)
            if broken is not None:
                retries.say(broken)
            response = client._open(call, retries, streams=True)
            with closing(response):
                reading.begins(call, response)
                try:
                    for piece in response.iter_bytes():
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
            time.sleep(sending.AGAIN_S)

    def _send(self, call: Call[_T]) -> _T:
        return sending.parsed(call, self._open(call, sending.Retries(call, self._settings)))

    def _open(self, call: Call[Any], retries: sending.Retries, streams: bool = False) -> httpx2.Response:
        """The answer to `call`, sent again where that is safe; one that streams is yet to be read."""
        timeout_s = self._settings.timeout_s
        timeout = httpx2.Timeout(timeout_s, read=sending.QUIET_S if streams else timeout_s)
        request = sending.built(self._http, call, timeout)
        while True:
            failure: sending.Failure | None
            try:
                response = self._http.send(request, stream=streams)
                self.notices = sending.notices(response)
                if response.is_success:
                    failure = None if streams else sending.half(response)
                    if failure is None:
                        retries.answered()
                        return response
                else:
                    response.read()
                    failure = response
            except httpx2.HTTPError as error:
                failure = error
            pause = retries.pause(failure)
            if pause is None:
                raise retries.error(failure)
            time.sleep(pause)


def _own(method: Callable[Concatenate[Client, str, _P], _T]) -> Callable[Concatenate[Job, _P], _T]:
    """A method of the client, for this job."""

    def own(self: Job, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return method(self.client, self.id, *args, **kwargs)

    return sending.documented(own, method, given=2)


@dataclass(frozen=True, kw_only=True)
class Job(JobFields):
    """A job as last read from the queue; methods that change or refresh it return a new one."""

    client: Client = field(repr=False, compare=False)

    refresh = _own(Client.job)
    cancel = _own(Client.cancel_job)
    rerun = _own(Client.rerun_job)
    logs = _own(Client.logs)
    why = _own(Client.why)
    result = _own(Client.result)
    history = _own(Client.history)

    def set_priority(self, priority: JobPriority | str) -> Job:
        """Change its priority while it is queued. Raises Conflict if it has changed since it was read."""
        return self.client.set_priority(self.id, priority, self.version)

    def wait(self, timeout: float | None = None) -> Job:
        """Wait until the job has ended, whatever its final state. Raises WaitTimeout after `timeout` seconds,
        and LostContact if the queue does not answer for `lost_after`; the job continues."""
        end = None if timeout is None else time.monotonic() + timeout
        job = self
        for pause in sending.wait_pauses():
            left = None if end is None else end - time.monotonic()
            try:
                job = replace(self.client.waiting(left).job(self.id), client=self.client)
            except GpupoolClientError as error:
                if left is None or not error.no_answer or left > self.client.lost_after:
                    raise
                raise WaitTimeout(f"job {self.id} was {job.state}, and {error}") from error
            if job.ended:
                return job
            left = pause if end is None else min(pause, end - time.monotonic())
            if left <= 0:
                raise WaitTimeout(f"job {self.id} is {job.state} after {timeout} s")
            time.sleep(left)
        raise AssertionError("unreachable")
