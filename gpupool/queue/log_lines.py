"""The lines that a service writes to stdout and stderr: one that can't be written is counted and left out.

A full disk, a pipe that is not read any more or a stream that was closed before the start must not end a
service, and there is nowhere to report it but its metrics. Lines go out whole and at once, so that nothing
that failed is tried again later.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from gpupool.findings.terminal import Terminal, sent


class LogLines(io.TextIOBase):
    """A text stream whose `write` never raises for what the system says. `stream`: whose file it writes to;
    `closed`: that was closed before this process began, and each line is lost."""

    lost = 0
    """Lines of this process that could not be written."""
    _lock = threading.Lock()

    def __init__(self, stream: TextIO, closed: bool = False) -> None:
        self._stream, self._closed = stream, closed
        self._rest = ""
        self._cut = False
        """Whether the last line was written in part."""

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str, /) -> int:
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            for line in lines:
                self._line(sent(line) if isinstance(self._stream, Terminal) else line)
        return len(text)

    def _line(self, line: str) -> None:
        data = ("\n" if self._cut else "") + line + "\n"
        left = memoryview(data.encode("utf-8", "backslashreplace"))
        whole = len(left)
        try:
            if self._closed:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            while left:
                left = left[os.write(self.fileno(), left) :]
            self._cut = False
        except OSError:
            self._cut = self._cut or len(left) < whole
            LogLines.lost += 1


class _Lost(Collector):
    def collect(self) -> Iterator[CounterMetricFamily]:
        text = "Lines of this process's log that could not be written."
        yield CounterMetricFamily("gpupool_queue_log_lines_lost", text, LogLines.lost)


def take_streams() -> None:
    """Make stdout and stderr of this process such streams, from now on."""
    # The interpreter has None for those that were closed when it started; `terminal.protect` opens others.
    sys.stdout = LogLines(sys.stdout, closed=sys.__stdout__ is None)
    sys.stderr = LogLines(sys.stderr, closed=sys.__stderr__ is None)


def count_lost(registry: CollectorRegistry) -> None:
    """Have the registry show how many lines were lost."""
    registry.register(_Lost())
