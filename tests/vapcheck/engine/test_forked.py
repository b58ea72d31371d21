"""What another process does is as if this one had done it."""

from __future__ import annotations

import os
import signal

from vapcheck import forked


def test_the_result_comes_from_another_process() -> None:
    assert forked.start(os.getpid)() != os.getpid()


def test_a_result_may_be_larger_than_a_pipe_holds() -> None:
    assert forked.start(lambda: b"x" * 1_000_000)() == b"x" * 1_000_000


def test_what_a_process_that_is_killed_should_have_done_is_done_here() -> None:
    here = os.getpid()

    def work() -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    assert forked.start(work)() == here
