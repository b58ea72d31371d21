"""A command at a terminal of its own: what the terminal is sent, byte for byte."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
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
            timeout=120,
            check=False,
        )
    finally:
        os.close(theirs)
        reading.join(30)
        os.close(ours)
    return b"".join(parts).decode("utf-8", "surrogateescape")
