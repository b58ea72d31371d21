"""Progress of every verb that may take long: silent for two seconds, then on stderr.

What was done in the end is for the verb to print: here a log gets a line now and then, not one for each step.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpupool.findings.terminal import CLEAR_LINE

QUIET_S = 2.0
"""Seconds until the first message, unless QUIET_VARIABLE sets them."""
QUIET_VARIABLE = "GPUPOOL_QUIET_SECONDS"
"""For callers that compare what is said, as tests do: on a slow day they would find progress among it."""
REDRAW_S = 0.5
"""How often a live line is drawn again, in seconds."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 and the signal's number."""
LINE_EVERY_S = 5.0
"""Where lines stay, one at most in so many seconds: a log is read by people too."""


@contextmanager
def progress(title: str, quiet_s: float | None = None) -> Iterator[Callable[[str], None]]:
    """Say what is being done once `quiet_s` seconds have passed: a live line on a terminal, else plain lines.

    Yields a function that takes the name of the step now being done. An alarm drives it, not a thread, as
    a process with threads should not fork, and large checks do. Silent outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield lambda _: None
        return
    said = _Progress(title)
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is not signal.SIG_IGN:  # as a shell has it for what runs in background
        signal.signal(signal.SIGINT, _interrupt(os.getpid()))
    before = signal.signal(signal.SIGALRM, lambda *_: said.show())
    quiet_s = _quiet_seconds() if quiet_s is None else quiet_s
    timer = signal.setitimer(signal.ITIMER_REAL, quiet_s, REDRAW_S)
    try:
        yield said.notify
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, interrupted)
        said.end()


def _quiet_seconds() -> float:
    """What the environment says, if that is a time; 0 would mean to be silent for ever."""
    try:
        given = float(os.environ.get(QUIET_VARIABLE, QUIET_S))
    except ValueError:
        return QUIET_S
    return min(max(0.01, given), 1e6)


def _interrupt(here: int) -> Callable[[int, object], None]:
    """Ends the process `here` by KeyboardInterrupt, and what was forked from it without a word: a terminal
    interrupts all of them."""

    def end(_signal: int, _frame: object) -> None:
        if os.getpid() != here:
            os._exit(INTERRUPTED)
        raise KeyboardInterrupt

    return end


class _Progress:
    """The messages so far."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._step = ""
        self._said: str | None = None
        self._again = 0.0
        self._started = time.monotonic()
        self._live = sys.stderr.isatty()

    def notify(self, step: str) -> None:
        self._step = step

    def show(self) -> None:
        line = f"{self._title}: {self._step}" if self._step else self._title
        if self._live:
            self._write(f"{CLEAR_LINE}{line} ... {time.monotonic() - self._started:.0f} s")
        elif line != self._said and time.monotonic() >= self._again:
            self._write(f"{line} ...\n")
            self._again = time.monotonic() + LINE_EVERY_S
        else:
            return
        self._said = line

    def end(self) -> None:
        if self._live and self._said is not None:
            self._write(CLEAR_LINE)

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
