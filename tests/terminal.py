"""A command at a terminal of its own: what the terminal is sent, byte for byte."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

GPUPOOL = str(Path(sys.executable).with_name("gpupool"))


def sent_to_a_terminal(*arguments: str, folder: Path | None = None, program: str = GPUPOOL) -> str:
    """All that `gpupool ARGUMENTS`, or another program, sends to its terminal, as stdout and as stderr."""
    ours, theirs = pty.openpty()
    parts: list[bytes] = []

    def read() -> None:
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:
            return  # Linux: the last process with the terminal open has closed it

    reading = threading.Thread(target=read)
    reading.start()
    try:
        subprocess.run(
            [program, *arguments],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            check=False,
        )
    finally:
        os.close(theirs)
        reading.join()
        os.close(ours)
    return b"".join(parts).decode("utf-8", "surrogateescape")


def answered_at_a_terminal(
    command: list[str],
    question: str,
    answer: Callable[[], str],
    folder: Path,
    variables: Mapping[str, str],
    patience_s: float = 120.0,
) -> tuple[int, str]:
    """Exit code of the command and all that it sends to its terminal. Once that has `question`, `answer` is
    called, and what it returns is typed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, cwd=folder, env=dict(variables), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    sent, typed, until = "", False, time.monotonic() + patience_s
    try:
        while time.monotonic() < until:
            sent += os.read(ours, 65536).decode("utf-8", "replace")
            if question in sent and not typed:
                os.write(ours, answer().encode() + b"\n")
                typed = True
    except OSError:
        pass  # Linux: the last process with the terminal open has closed it
    finally:
        os.close(ours)
    return process.wait(10), sent
