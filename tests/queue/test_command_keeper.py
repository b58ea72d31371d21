"""What becomes of a command, and of all that it started, when the process that started it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from gpupool.queue import command_keeper

OWNER = """
import os, subprocess, sys, time
from gpupool.queue import command_keeper
keeper, mark = command_keeper.Keeper(), sys.argv[1]
keeper.keep(mark)
environment = {**os.environ, command_keeper.MARK: mark}
command = subprocess.Popen(sys.argv[2:], env=environment, start_new_session=True)
keeper.keep(mark, command.pid)
if os.environ.get("FORGET"):
    keeper.forget(mark)
print(keeper._process.pid, flush=True)
time.sleep(600)
"""
NOTE = "echo $$ >> {file}; exec sleep 600"
ESCAPES = {
    "a command": NOTE,
    "its child": "({note}) & wait",
    "a child whose parent has ended": "({note}) & exit 0",
    "in a session of its own": "setsid sh -c '{note}' & wait",
    "in a session of its own, its parent has ended": "setsid sh -c '{note}' & exit 0",
    "without its variables": "env -i sh -c '{note}' & wait",
    "without its variables, its parent has ended": "env -i sh -c '{note}' & exit 0",
}


def started(tmp_path: Path, text: str, **environment: str) -> tuple[subprocess.Popen[bytes], int, int]:
    """The owner, its keeper, and the process that writes its number."""
    file = tmp_path / "pids"
    note = NOTE.format(file=file)
    command = ["sh", "-c", text.format(note=note, file=file)]
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, f"mark-{os.getpid()}-{tmp_path.name}", *command],
        stdout=subprocess.PIPE,
        env={**os.environ, **environment},
    )
    assert owner.stdout is not None
    keeper = int(owner.stdout.readline())
    return owner, keeper, _number(file)


def _number(file: Path) -> int:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if file.exists() and file.read_text().endswith("\n"):
            return int(file.read_text())
        time.sleep(0.02)
    raise AssertionError("it did not start")


def gone(pid: int, seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("name", ESCAPES)
def test_nothing_outlives_a_process_that_is_killed(tmp_path: Path, name: str) -> None:
    owner, keeper, pid = started(tmp_path, ESCAPES[name])
    os.kill(keeper, signal.SIGTERM)  # as a signal to everything of the service does
    assert psutil.pid_exists(pid)
    owner.kill()
    owner.wait()
    assert gone(pid)
    assert gone(keeper)


def test_what_is_forgotten_is_left_alone(tmp_path: Path) -> None:
    owner, keeper, pid = started(tmp_path, NOTE, FORGET="1")
    try:
        owner.kill()
        owner.wait()
        assert gone(keeper)
        assert not gone(pid, 0.5)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_keeper_that_is_killed_is_followed_by_another() -> None:
    keeper = command_keeper.Keeper()
    keeper.keep("a")
    first = keeper._process
    assert first is not None
    first.kill()
    first.wait()
    keeper.forget("a")
    keeper.keep("b")
    assert keeper._process is not None
    assert keeper._process.pid != first.pid
    keeper._process.stdin.close()  # type: ignore[union-attr]
    assert keeper._process.wait(30) == 0
