"""The file of a pod's output, as `kubectl logs` reads it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gpupool.local.pods.output import LogOptions, PodOutput


def test_each_line_has_a_time_of_its_own(tmp_path: Path) -> None:
    """Who reads on from the time of a line would leave out others with the same."""

    async def read() -> bytes:
        return b"".join([part async for part in output.read(LogOptions(timestamps=True))])

    output = PodOutput(tmp_path / "log")
    for number in range(200):
        output.write(b"".join(b"%d %d\n" % (number, line) for line in range(5)))
    output.finish()
    lines = asyncio.run(read()).splitlines()
    assert [line.split(b" ", 1)[1] for line in lines] == [
        b"%d %d" % (n, k) for n in range(200) for k in range(5)
    ]
    times = [line.split(b" ", 1)[0] for line in lines]
    assert times == sorted(set(times))


def test_the_latest_output_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a kubelet: a reader that follows has everything, a later one the end."""
    monkeypatch.setattr("gpupool.local.pods.output.LIMIT_BYTES", 1000)
    output = PodOutput(tmp_path / "log")

    async def read() -> tuple[bytes, bytes]:
        following = asyncio.create_task(whole(LogOptions(follow=True)))
        for number in range(500):
            output.write(b"%d\n" % number)
            if number % 7 == 0:
                await asyncio.sleep(0.001)
        output.finish()
        return await following, await whole(LogOptions())

    async def whole(options: LogOptions) -> bytes:
        return b"".join([part async for part in output.read(options)])

    monkeypatch.setattr("gpupool.local.pods.output._POLL_SECONDS", 0.0)
    followed, later = asyncio.run(read())
    everything = b"".join(b"%d\n" % number for number in range(500))
    assert followed == everything
    assert everything.endswith(later)
    assert later.count(b"\n") >= 25
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2100
    again = PodOutput(tmp_path / "log", finished=True)

    async def restarted() -> bytes:
        return b"".join([part async for part in again.read(LogOptions())])

    assert asyncio.run(restarted()) == later
