"""The memory of a program of several processes: of all of them, and what they share once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.perf.launcher import descent, rollup, together
from tests.perf.measure import run

MEBIBYTES = 64
_ALLOCATE = f"held = bytearray(b'x' * ({MEBIBYTES} << 20))"
_FORK = "import os; os.fork()"
_WAIT = "import sys; print('ready', flush=True); sys.stdin.read()"


def _together(*lines: str) -> float:
    """MiB of a program that forks, while all its processes are there and wait."""
    program = [sys.executable, "-I", "-S", "-c", "\n".join([*lines, _WAIT])]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2
        rows = [rollup(pid) for pid in descent(process.pid)]
        process.stdin.close()
    assert len(rows) == 2
    return together(rows) / 1024


def test_what_each_process_has_of_its_own_is_added() -> None:
    assert _together(_FORK, _ALLOCATE) > 2 * MEBIBYTES


def test_what_processes_share_counts_once() -> None:
    assert MEBIBYTES < _together(_ALLOCATE, _FORK) < 2 * MEBIBYTES


def test_the_file_pages_of_processes_are_those_of_one() -> None:
    rows = [
        {"Rss": 90, "Anonymous": 60, "Pss_Anon": 40, "Pss": 45},
        {"Rss": 70, "Anonymous": 60, "Pss_Anon": 40, "Pss": 41},
    ]
    assert together(rows) == 30 + 40 + 40
    assert together([]) == 0


def test_a_program_is_measured_as_a_tree(tmp_path: Path) -> None:
    """Parent and child hold as much as each other at the same time."""
    hold = f"held = b'x' * ({MEBIBYTES} << 20)"
    child = f"import time; {hold}; time.sleep(1)"
    both = f"import subprocess, sys; {hold}; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    _, alone = run([sys.executable, "-c", child], tmp_path)
    _, tree = run([sys.executable, "-c", both], tmp_path, tree=True)
    assert MEBIBYTES < alone < 2 * MEBIBYTES < tree
