"""Progress of a verb that is usually done before anyone would look: silent for two seconds, then on stderr.

No rich here: importing it takes longer than most checks.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET_S = 2.0
"""How long nothing is said, in seconds."""
REDRAW_S = 0.5
"""How often a live line is drawn again, in seconds."""
LINE_EVERY_S = 5.0
"""Where lines stay, one at most in so many seconds: a log is read by people too."""


@contextmanager
def patient_progress(title: str, quiet_s: float = QUIET_S) -> Iterator[Callable[[str], None]]:
    """Say what is being done once `quiet_s` seconds have passed: a live line on a terminal, else plain lines.

    Yields a function that takes the name of the step now being done.
    """
    step, done, started = [""], threading.Event(), time.monotonic()
    live = sys.stderr.isatty()

    def show() -> None:
        said, again = None, 0.0
        while not done.wait(max(0.0, started + quiet_s - time.monotonic()) if said is None else REDRAW_S):
            line = f"{title}: {step[0]}" if step[0] else title
            if live:
                sys.stderr.write(f"\r\x1b[K{line} ... {time.monotonic() - started:.0f} s")
                sys.stderr.flush()
            elif line != said and time.monotonic() >= again:
                sys.stderr.write(f"{line} ...\n")
                sys.stderr.flush()
                again = time.monotonic() + LINE_EVERY_S
            else:
                continue
            said = line
        if live and said is not None:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield lambda name: step.__setitem__(0, name)
    finally:
        done.set()
        thread.join()
