"""Ctrl-C reaches the engine's process once, whenever it comes, and leaves no traceback of a thread."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from infra.engine import Command, EngineError, interruptible


def program(folder: Path, text: str) -> Command:
    """A command that behaves like a shell script."""
    path = folder / "pulumi"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return Command(path)


def ctrl_c(seconds: float) -> None:
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()


def test_output_and_errors_are_told_apart(tmp_path: Path) -> None:
    lines: list[str] = []
    done = program(tmp_path, "echo out; echo err >&2").run([], str(tmp_path), {}, lines.append, lines.append)
    assert (done.stdout, done.stderr) == ("out", "err")
    assert sorted(lines) == ["err", "out"]


def test_ctrl_c_during_a_short_command_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    command = program(tmp_path, "while :; do echo line; done")
    ctrl_c(0.3)
    with pytest.raises(KeyboardInterrupt):
        command.run([], str(tmp_path), {})
    assert failed == []
    assert not [child for child in psutil.Process().children() if child.name() == "pulumi"]


def test_ctrl_c_before_the_engine_runs_is_not_lost(tmp_path: Path) -> None:
    # `exec`: a child of the shell would outlive it and hold its pipes open, at times.
    command = program(tmp_path, "exec sleep 20")

    def work() -> None:
        time.sleep(0.5)
        command.run([], str(tmp_path), {})

    told: list[str] = []
    ctrl_c(0.2)
    failure, interrupted = interruptible(work, command, told.append)
    assert interrupted
    assert f"code: -{signal.SIGINT.value}" in str(failure)
    assert told == ["stopping after what is under way (Ctrl-C again to stop at once)"]


def test_what_the_work_raises_is_handed_over(tmp_path: Path) -> None:
    def work() -> None:
        raise EngineError("no")

    failure, interrupted = interruptible(work, program(tmp_path, ""), lambda _: None)
    assert isinstance(failure, EngineError)
    assert not interrupted
