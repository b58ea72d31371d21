"""Running programs and functions against the clock. Knows nothing of what is measured."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path


class Failed(Exception):
    """What was to be measured did not work; the figure is missed, and this says why."""


def seconds(work: Callable[[], object], times: int) -> list[float]:
    """Wall time of each of so many calls."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return taken


def run(
    command: Sequence[str | Path],
    folder: Path,
    variables: Mapping[str, str] | None = None,
    accepted: Collection[int] = (0,),
    output: Path | None = None,
) -> tuple[float, float]:
    """Wall seconds and peak resident megabytes (MiB) of a program; what it prints goes to `output` if given.

    Raises Failed with its last words when its exit status is none of `accepted`.
    """
    with tempfile.TemporaryFile() as said, output.open("wb") if output else nullcontext(said) as printed:
        started = time.perf_counter()
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=folder,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=said,
        )
        _, status, usage = os.wait4(process.pid, 0)
        taken = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in accepted:
            said.seek(0)
            words = said.read().decode(errors="replace").strip()[-500:]
            raise Failed(f"{' '.join(str(part) for part in command)}: exit {process.returncode}: {words}")
    return taken, usage.ru_maxrss / 1024
