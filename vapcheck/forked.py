"""Work that a forked process does while this one does something else: Python holds one processor.

What was read and loaded before is shared, not sent; a result is sent, so it has to be small beside its work.
It decides nothing about what is worth a process: each costs some 10 ms, and memory of its own.
"""

from __future__ import annotations

import gc
import os
import pickle
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def processors() -> int:
    """How many processes may run at once: 1 where forking is not safe, as a process with several threads may
    inherit a lock that is never released."""
    if not hasattr(os, "fork") or not hasattr(os, "sched_getaffinity") or threading.active_count() > 1:
        return 1
    return len(os.sched_getaffinity(0))


def start(work: Callable[[], Result]) -> Callable[[], Result]:
    """Have a forked process do `work`; the function that is returned waits for its result.

    Where that process ends without a result (an error, too little memory), the work is done by this one.
    """
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        _do(work, writing)
    os.close(writing)
    pipe = os.fdopen(reading, "rb")

    def result() -> Result:
        with pipe:
            sent = pipe.read()
        _, status = os.waitpid(process, 0)
        if status:
            return work()
        found: Result = pickle.loads(sent)  # noqa: S301 - from our own process
        return found

    return result


def _do(work: Callable[[], object], writing: int) -> None:
    """Ends this process in any case: what is to be done at its end is for the one that it was forked from."""
    status = 1
    gc.disable()  # a collection writes to, and thereby copies, what the processes share
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(pickle.dumps(work(), pickle.HIGHEST_PROTOCOL))
        status = 0
    finally:
        os._exit(status)
