"""Running programs and functions against the clock. Knows nothing of what is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

_LAUNCHER = Path(__file__).with_name("launcher.py")


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
    tree: bool = False,
) -> tuple[float, float]:
    """Wall seconds and peak resident megabytes (MiB) of a program; what it prints goes to `output` if given.

    With `tree` the peak is that of all its processes together, otherwise that of the largest; it is sampled,
    which slows the program down, so that the seconds are then no figure.

    Raises Failed with its last words when its exit status is none of `accepted`.
    """
    memory = "tree" if tree else "own"
    with (
        tempfile.TemporaryFile() as said,
        tempfile.NamedTemporaryFile("r") as report,
        output.open("wb") if output else nullcontext(said) as printed,
    ):
        done = subprocess.run(
            [sys.executable, "-I", "-S", _LAUNCHER, report.name, memory, *(str(part) for part in command)],
            cwd=folder,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=said,
            check=False,
        )
        took = json.loads(report.read() or "{}")
        if done.returncode or took["code"] not in accepted:
            said.seek(0)
            words = said.read().decode(errors="replace").strip()[-500:]
            code = took.get("code", done.returncode)
            raise Failed(f"{' '.join(str(part) for part in command)}: exit {code}: {words}")
    return took["seconds"], took["kibibytes"] / 1024
