"""Ctrl-C reaches the engine's process once, whenever it comes, and leaves no traceback of a thread."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from gpupool.infra.engine import Command, EngineError, interruptible

PATIENCE = 60.0
"""Seconds after which something hangs; all that is waited for here takes less than one."""


def program(folder: Path, text: str) -> Command:
    """A command that behaves like a shell script."""
    path = folder / "pulumi"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return Command(path)


@pytest.fixture(autouse=True)
def _usual_ctrl_c() -> Iterator[None]:
    """Whatever a test does with Ctrl-C, it is as it was for the next one."""
    before = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) is before


def ctrl_c(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_output_and_errors_are_distinguished(tmp_path: Path) -> None:
    lines: list[str] = []
    done = program(tmp_path, "echo out; echo err >&2").run([], str(tmp_path), {}, lines.append, lines.append)
    assert (done.stdout, done.stderr) == ("out", "err")
    assert sorted(lines) == ["err", "out"]


def test_ctrl_c_during_a_short_command_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    command = program(tmp_path, "while :; do echo line; done")
    pressed = threading.Event()

    def press_once(_: str) -> None:
        if not pressed.is_set():
            pressed.set()
            ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        command.run([], str(tmp_path), {}, press_once)
    assert failed == []
    assert not [child for child in psutil.Process().children() if child.name() == "pulumi"]


def test_ctrl_c_before_the_engine_runs_is_not_lost(tmp_path: Path) -> None:
    # `exec`: a child of the shell would outlive it and hold its pipes open, at times.
    command = program(tmp_path, "exec sleep 600")
    reported: list[str] = []

    def work() -> None:
        ctrl_c()
        until(lambda: reported)
        command.run([], str(tmp_path), {})

    failure, interrupted = interruptible(work, command, reported.append)
    assert interrupted
    assert f"code: -{signal.SIGINT.value}" in str(failure)
    assert reported == ["stopping after the current operations (Ctrl-C again to stop at once)"]


def test_each_ctrl_c_is_passed_on_once(tmp_path: Path) -> None:
    """The engine stops in an orderly way at the first and at once at the second."""
    count = "n=0; trap 'n=$((n + 1)); echo got $n; [ $n = 2 ] && exit 7' INT; echo ready"
    command = program(tmp_path, f"{count}; while :; do sleep 0.05; done")
    lines: list[str] = []

    def work() -> None:
        command.run([], str(tmp_path), {}, lines.append)

    def user() -> None:
        until(lambda: "ready" in lines)
        ctrl_c()
        until(lambda: "got 1" in lines)
        ctrl_c()

    at_the_keyboard = threading.Thread(target=user)
    at_the_keyboard.start()
    reported: list[str] = []
    failure, interrupted = interruptible(work, command, reported.append)
    at_the_keyboard.join()
    assert interrupted
    assert "code: 7" in str(failure)
    assert lines == ["ready", "got 1", "got 2"]
    assert len(reported) == 2


def test_what_the_work_raises_is_handed_over(tmp_path: Path) -> None:
    def work() -> None:
        raise EngineError("no")

    failure, interrupted = interruptible(work, program(tmp_path, ""), lambda _: None)
    assert isinstance(failure, EngineError)
    assert not interrupted
