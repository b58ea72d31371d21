"""Ends the commands of a process that was killed, with all that they started: nothing else would.

A keeper is a process of its own at the end of a pipe, which closes however its owner ends. Commands are known
by a variable of their environment and by their session: what leaves one is found by the other. A process that
leaves both behind, and whose parent has ended, is not found. It must not decide when a command of a living
owner ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

import psutil

MARK = "GPUPOOL_POD_UID"
"""Variable of a command's environment that no other run has the value of."""
_DEAF = 'trap \'\' TERM INT HUP; exec "$0" "$@"'
"""A signal to all processes of a service must not end its keeper before it."""
_ROUNDS = 50
_PAUSE_S = 0.05
"""Between two looks for what was started meanwhile."""


class Keeper:
    """Started with the first command. Calls are of one thread."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._kept: dict[str, int | None] = {}

    def keep(self, mark: str, session: int | None = None) -> None:
        """A command of this mark is about to start, or has this session."""
        self._kept[mark] = session
        if self._process is None or self._process.poll() is not None:
            # A session of its own: what is sent to its owner's must not end it as well.
            argv = ["sh", "-c", _DEAF, sys.executable, "-I", __file__]
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True)
            for known, started in self._kept.items():
                self._say(known, "+", started)
        else:
            self._say(mark, "+", session)

    def forget(self, mark: str) -> None:
        """It has ended, with all that it started."""
        self._kept.pop(mark, None)
        self._say(mark, "-", None)

    def _say(self, mark: str, what: str, session: int | None) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it was killed; the next command starts another one
            self._process.stdin.write(f"{what} {mark} {session or 0}\n".encode())
            self._process.stdin.flush()


def end(kept: Mapping[str, int | None]) -> None:
    """Kill every process of these marks, each with the session of its command where that is known."""
    for _ in range(_ROUNDS):
        left = _of(kept)
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE_S)


def _of(kept: Mapping[str, int | None]) -> set[int]:
    sessions = {session for session in kept.values() if session}
    parents: dict[int, int] = {}
    left: set[int] = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            parents[process.pid] = process.ppid()
            if os.getsid(process.pid) in sessions or process.environ().get(MARK) in kept:
                left.add(process.pid)
    while more := {pid for pid, parent in parents.items() if parent in left} - left:
        left |= more
    return left


def main() -> None:
    """Keep what standard input names until it closes; then end it."""
    kept: dict[str, int | None] = {}
    for line in sys.stdin:
        change, mark, session = line.split()
        if change == "+":
            kept[mark] = int(session) or None
        else:
            kept.pop(mark, None)
    end(kept)


if __name__ == "__main__":
    main()
