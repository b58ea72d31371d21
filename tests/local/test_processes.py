"""A process is ours only if it is exactly the one that was started."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from gpupool.local import processes
from gpupool.local.processes import RunningProcess

PATIENCE = 60.0
"""Seconds after which something hangs; all that is waited for here takes less than one."""

SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
)


def spawn(tmp_path: Path, argv: tuple[str, ...] = SLEEP) -> RunningProcess:
    """A process that has its arguments and environment: Linux fills them in late in execve."""
    log = tmp_path / "logs" / "x.log"
    running = processes.spawn(argv, {"PATH": os.environ["PATH"]}, tmp_path, log, "f")
    process = psutil.Process(running.pid)
    until(lambda: process.cmdline() == list(argv) and process.environ())
    return running


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_started_process_is_alive_marked_and_can_be_stopped(tmp_path: Path) -> None:
    running = spawn(tmp_path)
    assert processes.alive(running)
    assert processes.marked(tmp_path) == [running.pid]
    assert RunningProcess.from_dict(running.as_dict()) == running
    assert os.getsid(running.pid) == running.pid, "it must not die with our terminal"
    processes.stop([running.pid], PATIENCE)
    assert not processes.alive(running)
    assert processes.marked(tmp_path) == []


def test_no_variable_of_the_caller_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/somebody/elses")
    running = spawn(tmp_path)
    assert "KUBECONFIG" not in psutil.Process(running.pid).environ()
    processes.stop([running.pid], PATIENCE)


@pytest.mark.parametrize("change", [{"started": "ticks:1"}, {"argv": ("sleep", "1")}])
def test_another_start_time_or_command_line_is_another_process(
    tmp_path: Path, change: dict[str, object]
) -> None:
    running = spawn(tmp_path)
    assert processes.alive(running)
    assert not processes.alive(dataclasses.replace(running, **change))  # type: ignore[arg-type]
    processes.stop([running.pid], PATIENCE)


def test_a_zombie_is_dead(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    until(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    assert processes.start_mark(child.pid) is None
    child.wait()


def test_who_does_not_listen_is_killed(tmp_path: Path) -> None:
    running = spawn(tmp_path, STUBBORN)
    log = tmp_path / "logs" / "x.log"
    until(lambda: "deaf" in log.read_text())
    started = time.monotonic()
    processes.stop([running.pid], 0.5)
    assert not processes.alive(running)
    assert time.monotonic() - started >= 0.5


def test_a_stopped_process_can_be_ended(tmp_path: Path) -> None:
    running = spawn(tmp_path)
    psutil.Process(running.pid).suspend()
    processes.stop([running.pid], PATIENCE)
    assert not processes.alive(running)


def test_an_unused_pid_is_ignored() -> None:
    free = max(psutil.pids()) + 100_000
    processes.stop([free], 0.1)
    assert processes.start_mark(free) is None
    assert processes.memory_mib(free) is None
