"""The file of a pod's output, as `kubectl logs` reads it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gpupool.local.pods.output import Output, Wanted


def test_each_line_has_a_time_of_its_own(tmp_path: Path) -> None:
    """Who reads on from the time of a line would leave out others with the same."""

    async def read() -> bytes:
        return b"".join([part async for part in output.read(Wanted(timestamps=True))])

    output = Output(tmp_path / "log")
    for number in range(200):
        output.write(b"".join(b"%d %d\n" % (number, line) for line in range(5)))
    output.finish()
    lines = asyncio.run(read()).splitlines()
    assert [line.split(b" ", 1)[1] for line in lines] == [
        b"%d %d" % (n, k) for n in range(200) for k in range(5)
    ]
    times = [line.split(b" ", 1)[0] for line in lines]
    assert times == sorted(set(times))
