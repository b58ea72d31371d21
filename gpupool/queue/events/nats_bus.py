"""NATS JetStream as the bus that carries events.

Imported only where an environment names a broker; the others need not load nats-py.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import RetentionPolicy, StorageType, StreamConfig

from gpupool.queue.events.bus import BusUnavailable

STREAM = "JOBS"
KEPT_S = 7 * 24 * 3600
"""How long the stream keeps an event; as long as the database does."""
DUPLICATES_S = 600
"""How long JetStream recognises an event that is published again."""
_RECONNECT_S = 0.5


class NatsBus:
    """NATS JetStream. Connects at the first event, and again whenever the connection is lost."""

    def __init__(self, url: str, prefix: str, timeout_s: float = 5.0) -> None:
        self._url = url
        self._subjects = f"{prefix}.>"
        self._timeout_s = timeout_s
        self._connecting = asyncio.Lock()
        self._client: Client | None = None
        self._stream: JetStreamContext | None = None

    async def publish(self, subject: str, payload: bytes, id: str) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                stream = await self._ready()
                await stream.publish(subject, payload, timeout=self._timeout_s, headers={"Nats-Msg-Id": id})
        except (nats.errors.Error, OSError, TimeoutError, json.JSONDecodeError) as error:
            # The server may come back without its disk: then there is no stream, so look again next time.
            self._stream = None
            raise BusUnavailable(f"NATS has not accepted event {id}: {_reason(error)}") from error

    async def close(self) -> None:
        client, self._client, self._stream = self._client, None, None
        if client is not None:
            await client.close()

    async def _ready(self) -> JetStreamContext:
        """The stream's context, connected and with the stream in place."""
        async with self._connecting:
            if self._client is not None and self._client.is_closed:
                self._client, self._stream = None, None
            if self._client is None:
                self._client = await self._connected()
            if self._stream is None:
                context = self._client.jetstream(timeout=self._timeout_s)
                await self._ensure_stream(context)
                self._stream = context
            return self._stream

    async def _connected(self) -> Client:
        client = Client()
        try:
            await client.connect(
                self._url,
                name="gpupool",
                error_cb=_ignored,
                connect_timeout=max(1, int(self._timeout_s)),
                reconnect_time_wait=_RECONNECT_S,  # type: ignore[arg-type]
                max_reconnect_attempts=-1,
                # What can't be sent now fails now: the relay publishes it again, in order.
                pending_size=0,
            )
        except BaseException:
            with suppress(Exception):
                await client.close()
            raise
        return client

    async def _ensure_stream(self, context: JetStreamContext) -> None:
        """A stream that has the events already stays as its operator made it."""
        try:
            await context.find_stream_name_by_subject(self._subjects)
            return
        except nats.js.errors.NotFoundError:
            pass
        try:
            config = (await context.stream_info(STREAM)).config
        except nats.js.errors.NotFoundError:
            await context.add_stream(
                StreamConfig(
                    name=STREAM,
                    description="Events of gpupool's jobs",
                    subjects=[self._subjects],
                    retention=RetentionPolicy.LIMITS,
                    storage=StorageType.FILE,
                    max_age=KEPT_S,
                    duplicate_window=DUPLICATES_S,
                )
            )
            return
        # Another environment's events are in the stream too.
        await context.update_stream(config.evolve(subjects=[*(config.subjects or ()), self._subjects]))


async def _ignored(_: Exception) -> None:
    """The client reports a lost connection here too; `publish` reports it to the relay, which logs it."""


def _reason(error: BaseException) -> str:
    return str(error).strip() or "no answer in time"
