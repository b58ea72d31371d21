"""The bus against a real nats-server: stored once, in order, and found again after the server was away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import nats
import pytest
from nats.js.api import StreamConfig

from gpupool.queue.events import bus_of
from gpupool.queue.events.bus import BusUnavailable, NoBus
from gpupool.queue.events.nats_bus import NatsBus
from gpupool.queue.records import new_id
from tests.queue.nats_server import NatsServer

PREFIX = "mlops.gpu.jobs"


def on_bus(server: NatsServer, steps: Callable[[NatsBus, Any], Awaitable[None]]) -> None:
    """Run `steps` with a bus and a JetStream context of an observer."""

    async def run() -> None:
        bus = NatsBus(server.url, PREFIX, timeout_s=3.0)
        observer = await nats.connect(server.url, reconnect_time_wait=0.2, max_reconnect_attempts=-1)  # type: ignore[arg-type]
        try:
            await steps(bus, observer.jetstream())
        finally:
            await bus.close()
            await observer.close()

    asyncio.run(run())


async def stored(context: Any, count: int) -> list[tuple[str, bytes, str]]:
    """Subject, payload and id of the stream's first messages."""
    found = []
    for number in range(1, count + 1):
        one = await context.get_msg("JOBS", number)
        found.append((one.subject, one.data, one.headers["Nats-Msg-Id"]))
    return found


def test_events_are_stored_once_and_in_order(nats_server: NatsServer) -> None:
    async def steps(bus: NatsBus, context: Any) -> None:
        events = [(f"{PREFIX}.enqueued", f"{number}".encode(), new_id()) for number in range(20)]
        for one in [*events, *events]:
            await bus.publish(*one)
        assert (await context.stream_info("JOBS")).state.messages == 20
        assert await stored(context, 20) == events

    on_bus(nats_server, steps)


def test_the_stream_is_a_log_of_a_week_on_disk(nats_server: NatsServer) -> None:
    async def steps(bus: NatsBus, context: Any) -> None:
        await bus.publish(f"{PREFIX}.dispatched.t4.shared", b"{}", new_id())
        config = (await context.stream_info("JOBS")).config
        assert (config.retention, config.storage, config.max_age) == ("limits", "file", 7 * 86400)
        assert config.subjects == [f"{PREFIX}.>"]

    on_bus(nats_server, steps)


def test_many_at_once_connect_once(nats_server: NatsServer) -> None:
    async def steps(bus: NatsBus, context: Any) -> None:
        await asyncio.gather(*(bus.publish(f"{PREFIX}.started", b"{}", new_id()) for _ in range(100)))
        assert (await context.stream_info("JOBS")).state.messages == 100

    on_bus(nats_server, steps)


def test_a_stream_of_the_operators_stays_as_it_is(nats_server: NatsServer) -> None:
    async def steps(bus: NatsBus, context: Any) -> None:
        await context.add_stream(StreamConfig(name="EVERYTHING", subjects=["mlops.>"], max_msgs=5))
        await bus.publish(f"{PREFIX}.enqueued", b"{}", new_id())
        assert (await context.stream_info("EVERYTHING")).state.messages == 1
        assert [one.config.name for one in await context.streams_info()] == ["EVERYTHING"]

    on_bus(nats_server, steps)


def test_environments_share_the_stream(nats_server: NatsServer) -> None:
    async def steps(bus: NatsBus, context: Any) -> None:
        await context.add_stream(StreamConfig(name="JOBS", subjects=["other.jobs.>"], max_msgs=50))
        await bus.publish(f"{PREFIX}.enqueued", b"{}", new_id())
        config = (await context.stream_info("JOBS")).config
        assert (config.subjects, config.max_msgs) == (["other.jobs.>", f"{PREFIX}.>"], 50)

    on_bus(nats_server, steps)


def test_a_server_that_was_away_gets_what_is_published_again(nats_server: NatsServer) -> None:
    async def steps(bus: NatsBus, context: Any) -> None:
        first, second = new_id(), new_id()
        await bus.publish(f"{PREFIX}.enqueued", b"1", first)
        nats_server.stop()
        with pytest.raises(BusUnavailable, match=second):
            await bus.publish(f"{PREFIX}.started", b"2", second)
        nats_server.start()
        await _until_accepted(bus, second)
        assert [one[2] for one in await stored(context, 2)] == [first, second]

    on_bus(nats_server, steps)


def test_a_stream_that_was_lost_is_made_again(nats_server: NatsServer) -> None:
    async def steps(bus: NatsBus, context: Any) -> None:
        await bus.publish(f"{PREFIX}.enqueued", b"1", new_id())
        await context.delete_stream("JOBS")
        again = new_id()
        with pytest.raises(BusUnavailable):
            await bus.publish(f"{PREFIX}.enqueued", b"2", again)
        await bus.publish(f"{PREFIX}.enqueued", b"2", again)
        assert (await stored(context, 1))[0][2] == again

    on_bus(nats_server, steps)


async def _until_accepted(bus: NatsBus, id: str) -> None:
    for _ in range(20):
        try:
            return await bus.publish(f"{PREFIX}.started", b"2", id)
        except BusUnavailable:
            await asyncio.sleep(0.1)
    raise AssertionError("the bus has not come back")


def test_no_server_is_reported_in_time() -> None:
    async def run() -> None:
        bus = NatsBus("nats://127.0.0.1:1", PREFIX, timeout_s=1.0)
        with pytest.raises(BusUnavailable, match=r"NATS has not accepted event x: "):
            await bus.publish(f"{PREFIX}.enqueued", b"", "x")
        await bus.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_without_a_url_there_is_no_bus() -> None:
    bus = bus_of(None, PREFIX)
    assert isinstance(bus, NoBus)
    asyncio.run(bus.publish("x", b"", "y"))
    asyncio.run(bus.close())
    assert isinstance(bus_of("nats://x:4222", PREFIX), NatsBus)
