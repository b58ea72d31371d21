"""The output of pods in the queue's logs, whatever becomes of the streams that it is read from."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from gpupool.queue.kubernetes.output import EACH_S, AttemptOutput
from gpupool.queue.roles.launcher import Launcher
from gpupool.queue.store import logs
from gpupool.queue.store.errors import Unavailable
from tests.queue.kubernetes.fake_cluster import Object
from tests.queue.kubernetes.launching import World, steps

BEGAN = datetime(2026, 11, 22, 12, tzinfo=UTC)


def line(number: int, text: str, seconds: int = 0) -> bytes:
    at = (BEGAN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{at}.{number:09}Z {text}".encode()


async def kept(world: World, id: str) -> list[str]:
    chunks = await logs.page(world.db, id)
    return [line for chunk in chunks for line in chunk.text.splitlines()]


async def until(world: World, launcher: Launcher, id: str, lines: list[str]) -> None:
    for _ in range(50):
        await steps(launcher, 1)
        await asyncio.sleep(0.05)
        if await kept(world, id) == lines:
            return
    assert await kept(world, id) == lines


def test_a_stream_that_is_cut_is_read_on(running) -> None:
    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        world.cluster.lines, world.cluster.cut_output = [line(1, "one"), line(2, "two")], True
        await steps(launcher)
        world.ahead += timedelta(minutes=1)
        await until(world, launcher, id, ["one", "two"])
        world.cluster.lines.append(line(3, "three"))
        world.ahead += timedelta(minutes=1)
        await until(world, launcher, id, ["one", "two", "three"])

    running(test)


def test_stamps_of_any_time_zone_are_read_on(running) -> None:
    """A kubelet gives them with the offset of its node, and drops what is before the time that is asked."""

    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        await launcher.close()  # it reads the output itself
        output = AttemptOutput(world.db, world.cluster, lambda: 1000)
        there = b"2026-11-22T14:00:0%d.5%s %s"
        for lines in ([(1, b"+02:00", b"one")], [(2, b"+02:00", b"two"), (3, b"+02:00", b"three")]):
            world.cluster.lines += [there % line for line in lines]
            await output._read((id, 1), pod, follow=False)
        assert await kept(world, id) == ["one", "two", "three"]
        # Summer time has ended.
        world.cluster.lines.append(b"2026-11-22T13:00:04.5+01:00 four")
        await output._read((id, 1), pod, follow=False)
        assert await kept(world, id) == ["one", "two", "three", "four"]

    running(test)


def test_what_goes_beyond_the_limit_is_left_out_and_that_is_said(running) -> None:
    """Times do not count: of short lines they are the most of what is sent."""

    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        world.cluster.lines = [line(number, "x") for number in range(100)]
        output = AttemptOutput(world.db, world.cluster, lambda: 120)
        for _ in range(2):
            await output._read((id, 1), pod, follow=True)
        lines = "".join(chunk.shown for chunk in await logs.page(world.db, id)).splitlines()
        assert lines[:30] == lines[-30:] == ["x"] * 30
        (mark,) = set(lines) - {"x"}
        left_out = 2 * (100 - (len(lines) - 1))
        assert mark == f"[gpupool: {left_out} bytes of the output are left out here]"

    running(test)


def test_a_write_without_an_answer_leaves_no_line_twice(running, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have taken effect: how far it came is asked of the database."""

    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        await launcher.close()  # it reads the output itself
        world.cluster.lines = [line(1, "one"), line(2, "two")]
        output, append = AttemptOutput(world.db, world.cluster, lambda: 1000), logs.append

        async def unanswered(*given: Any, **named: Any) -> None:
            await append(*given, **named)
            raise Unavailable("no answer")

        monkeypatch.setattr(logs, "append", unanswered)
        await output._quietly((id, 1), pod, follow=False)
        monkeypatch.setattr(logs, "append", append)
        world.cluster.lines.append(line(3, "three"))
        await output._quietly((id, 1), pod, follow=False)
        assert await kept(world, id) == ["one", "two", "three"]

    running(test)


def test_lines_and_how_far_they_were_read_are_written_together(running) -> None:
    """So that a process that dies between leaves no line twice."""

    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        await launcher.close()  # it reads the output itself
        world.cluster.lines = [line(1, "one"), line(2, "two")]
        async with world.db.connection() as connection:
            await connection.execute(
                "CREATE FUNCTION no() RETURNS trigger AS $$ BEGIN RAISE 'no'; END $$ LANGUAGE plpgsql"
            )
            await connection.execute(
                "CREATE TRIGGER no BEFORE UPDATE OF logged_until ON gpu_attempts EXECUTE FUNCTION no()"
            )
        output = AttemptOutput(world.db, world.cluster, lambda: 1000)
        with pytest.raises(psycopg.Error):
            await output._read((id, 1), pod, follow=False)
        assert await kept(world, id) == []
        async with world.db.connection() as connection:
            await connection.execute("DROP TRIGGER no ON gpu_attempts")
        for _ in range(2):
            await output._read((id, 1), pod, follow=False)
        assert await kept(world, id) == ["one", "two"]

    running(test)


def test_of_several_pods_the_output_is_followed_once_the_first_has_started(dispatched) -> None:
    async def test(world: World, launcher: Launcher, id: str) -> None:
        first, second = sorted(world.pods("Pending"), key=lambda pod: pod["metadata"]["name"])
        world.cluster.lines = [line(1, "up")]
        world.cluster.start(second)
        await steps(launcher)
        await asyncio.sleep(0.5)
        assert await kept(world, id) == []
        world.cluster.start(first)
        await until(world, launcher, id, ["up"])

    dispatched(test, gpu_count=8)


def test_of_many_that_start_at_once_few_are_followed_and_none_is_lost(
    running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower costs the cluster two requests and a connection to a node."""

    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        world.cluster.lines = [line(1, "one")]
        output, read = AttemptOutput(world.db, world.cluster, lambda: 1000), []

        async def noted(key: tuple[str, int], pod: Object, *, follow: bool) -> None:
            read.append((key, follow))

        monkeypatch.setattr(output, "_read", noted)
        keys = [(id, number) for number in range(1, 31)]
        for key in (*keys, *keys):
            output.follow(key, [pod])
        await asyncio.sleep(2.5 * EACH_S)
        assert read == [(key, True) for key in keys[:3]]
        await output.finish(keys[3], [pod])
        assert read[3:] == [(keys[3], False)]
        await asyncio.sleep(EACH_S)
        assert read[4:] == [(keys[4], True)]
        output.close()
        await asyncio.sleep(2 * EACH_S)
        assert len(read) == 5

    running(test)
