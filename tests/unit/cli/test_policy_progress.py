"""Progress is silent at first and then says what goes on, on stderr alone."""

from __future__ import annotations

import time

import pytest

from cli import policy_progress
from cli.policy_progress import patient_progress


def test_nothing_is_said_of_what_is_quick(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    with patient_progress("check", quiet_s=5) as tell:
        tell("reading")
    assert time.monotonic() - started < 1, "leaving must not wait for the quiet time"
    assert capsys.readouterr() == ("", "")


def test_slow_work_names_its_steps_once_each(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_progress, "LINE_EVERY_S", 0.1)
    monkeypatch.setattr(policy_progress, "REDRAW_S", 0.05)
    with patient_progress("check", quiet_s=0.02) as tell:
        tell("reading")
        time.sleep(0.3)
        tell("judging")
        time.sleep(0.5)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == ["check: reading ...", "check: judging ..."]


def test_many_steps_are_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with patient_progress("check", quiet_s=0.02) as tell:
        for number in range(50):
            tell(str(number))
            time.sleep(0.03)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_error_goes_through(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="broken"), patient_progress("check", quiet_s=5):
        raise ValueError("broken")
    assert capsys.readouterr().err == ""
