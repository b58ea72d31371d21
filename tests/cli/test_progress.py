"""Progress is silent at first and then says what goes on, on stderr alone.

Most tests send the alarm that drives it themselves, when they want it, and leave its timer alone.
"""

from __future__ import annotations

import signal
import time

import pytest

from gpupool.cli import progress

NEVER = 10_000.0
PATIENCE = 60.0


def alarm() -> None:
    signal.raise_signal(signal.SIGALRM)


def test_nothing_is_said_of_what_is_quick(capsys: pytest.CaptureFixture[str]) -> None:
    """Leaving that waited for the quiet time would not come back."""
    with progress.progress("check", quiet_s=NEVER) as notify:
        notify("reading")
    assert capsys.readouterr() == ("", "")


def test_the_timer_and_its_handler_are_put_back() -> None:
    handler, left = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0]
    with progress.progress("check", quiet_s=NEVER):
        assert signal.getsignal(signal.SIGALRM) is not handler
        assert NEVER / 2 < signal.getitimer(signal.ITIMER_REAL)[0] <= NEVER
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL)[0] <= left


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("7.5", 7.5), ("", 2.0), ("soon", 2.0), ("0", 0.01), ("-3", 0.01), ("nan", 0.01), ("inf", 1e6)],
)
def test_whoever_calls_says_how_long_it_is_quiet(
    given: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(signal, "setitimer", lambda _, after, *every: asked.append(after) or (0.0, 0.0))
    monkeypatch.setenv(progress.QUIET_VARIABLE, given)
    with progress.progress("check"):
        pass
    assert asked[0] == seconds


def test_the_timer_speaks_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    said, deadline = "", time.monotonic() + PATIENCE
    with progress.progress("check", quiet_s=0.02) as notify:
        notify("reading")
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
            said = capsys.readouterr().err
    assert said.startswith("check")


def test_slow_work_names_its_steps_once_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    with progress.progress("check", quiet_s=NEVER) as notify:
        for step in ("reading", "judging"):
            notify(step)
            alarm()
            alarm()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == ["check: reading ...", "check: judging ..."]


def test_many_steps_are_few_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", NEVER)
    with progress.progress("check", quiet_s=NEVER) as notify:
        for number in range(50):
            notify(str(number))
            alarm()
    assert capsys.readouterr().err == "check: 0 ...\n"


def test_an_error_goes_through(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="broken"), progress.progress("check", quiet_s=NEVER):
        raise ValueError("broken")
    assert capsys.readouterr().err == ""
