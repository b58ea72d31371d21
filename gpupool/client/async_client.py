"""`AsyncClient`: sends the operations from asyncio. What is sent and read is in `operations`.

`sync_client` is the same for ordinary code; the two change together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, Unpack

import httpx2

from gpupool.client import operations, sending
from gpupool.client.errors import WaitTimeout
from gpupool.client.event_stream import EventReader
from gpupool.client.operations import Call
from gpupool.client.values import (
    Answer,
    Event,
    Forecast,
    JobFields,
    JobPriority,
    JobSpec,
    Manifest,
    Pool,
    Recommendation,
    Usage,
    Why,
    made,
)

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class AsyncJob(JobFields):
    """A job as the queue last showed it; methods that change or read it return a new one."""

    client: AsyncClient = field(repr=False, compare=False)

    async def refresh(self) -> AsyncJob:
        """The job as it is now."""
        return await self.client.job(self.id)

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

    def logs(self, follow: bool = False, attempt: int | None = None) -> AsyncIterator[str]:
        """Its output, line by line; with `follow` until it has ended."""
        return self.client.logs(self.id, follow, attempt)

    async def why(self) -> Why:
        """Why it is where it is, with each term of the decision."""
        return await self.client.why(self.id)

    async def cancel(self) -> AsyncJob:
        """Cancel it: at once while it is queued, else it is asked to stop."""
        return await self.client.cancel_job(self.id)

    async def set_priority(self, priority: JobPriority | str) -> AsyncJob:
        """Change its priority while it is queued. Raises Conflict where it has changed since it was read."""
        return await self.client.set_priority(self.id, priority, self.version)

    async def result(self) -> Answer:
        """What the target of an HTTP job answered."""
        return await self.client.result(self.id)

    async def history(self) -> tuple[Event, ...]:
        """Everything that happened to it, in order."""
        return await self.client.history(self.id)


class AsyncClient:
    """The queue, asked from asyncio. Close it, or use it in an `async with` statement."""

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        tenant: str | None = None,
        project: str | None = None,
        user: str | None = None,
        timeout: float = 30.0,
        retry_for: float = 60.0,
        transport: Any = None,
    ) -> None:
        """What is not given is read from GPUPOOL_URL, GPUPOOL_KEY and GPUPOOL_TENANT. `transport` replaces
        the network in tests."""
        self._settings = sending.Settings(url, key, tenant, project, user, timeout, retry_for)
        self._http = httpx2.AsyncClient(**self._settings.options(transport))

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
        return self._job(
            await self._send(operations.submit(self._settings.with_project(spec), idempotency_key))
        )

    async def validate_job(self, **spec: Unpack[JobSpec]) -> Forecast:
        """Whether a job would be accepted, what it would cost, and what it would wait for."""
        return await self._send(operations.validate(self._settings.with_project(spec)))

    async def job(self, id: str) -> AsyncJob:
        return self._job(await self._send(operations.job(id)))

    async def jobs(
        self,
        *states: str,
        project: str | None = None,
        pool: str | None = None,
        user: str | None = None,
        group: str | None = None,
        page_size: int = 50,
    ) -> AsyncIterator[AsyncJob]:
        """The jobs in `states` (default: all), newest first, read a page at a time."""
        cursor: str | None = None
        while True:
            page = await self._send(
                operations.jobs(
                    states=states,
                    project=project,
                    pool=pool,
                    user=user,
                    group=group,
                    cursor=cursor,
                    limit=page_size,
                )
            )
            for data in page.jobs:
                yield self._job(data)
            cursor = page.next
            if cursor is None:
                return

    async def cancel_job(self, id: str) -> AsyncJob:
        return self._job(await self._send(operations.cancel(id)))

    async def set_priority(
        self, id: str, priority: JobPriority | str, version: int | None = None
    ) -> AsyncJob:
        """Change a queued job's priority; with `version`, only where the job has not changed since."""
        return self._job(await self._send(operations.set_priority(id, priority, version)))

    async def why(self, id: str) -> Why:
        return await self._send(operations.why(id))

    async def result(self, id: str) -> Answer:
        return await self._send(operations.result(id))

    async def history(self, id: str) -> tuple[Event, ...]:
        return await self._send(operations.history(id))

    async def pools(self) -> tuple[Pool, ...]:
        return await self._send(operations.pools())

    async def usage(self, tenant: str, since: datetime | None = None, until: datetime | None = None) -> Usage:
        return await self._send(operations.usage(tenant, since, until))

    async def create_ray_cluster(
        self,
        worker_node_type: str,
        min_workers: int = 0,
        max_workers: int = 2,
        *,
        gpu_count: int = 1,
        profile: str | None = None,
    ) -> Manifest:
        """The manifest of a RayCluster with `gpu_count` GPUs or slices of the pool `worker_node_type` per
        worker. It creates nothing on the cluster: fill in the image and apply its `yaml` with kubectl."""
        return await self._send(
            operations.create_ray_cluster(worker_node_type, min_workers, max_workers, gpu_count, profile)
        )

    async def recommendations(
        self, memory_gib: float, kind: str = "training", gpus: int = 1
    ) -> tuple[Recommendation, ...]:
        """Pools that fit a piece of work, best first; kind: training, inference or interactive."""
        return await self._send(operations.recommendations(memory_gib, kind, gpus))

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

    def _job(self, data: Mapping[str, Any]) -> AsyncJob:
        return made(AsyncJob, data, client=self)

    async def _send(self, call: Call[_T]) -> _T:
        return sending.parsed(call, await self._open(call, stream=False, quiet_s=self._settings.timeout_s))

    async def _open(self, call: Call[Any], stream: bool, quiet_s: float | None) -> httpx2.Response:
        """The answer to `call`, sent again where that is safe; with `stream` it is yet to be read."""
        retries = sending.Retries(call, self._settings.retry_s)
        timeout = httpx2.Timeout(self._settings.timeout_s, read=quiet_s)
        while True:
            failure: httpx2.Response | httpx2.HTTPError
            try:
                request = self._http.build_request(**sending.request(call), timeout=timeout)
                response = await self._http.send(request, stream=stream)
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
