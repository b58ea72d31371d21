"""`gpupool init`: it asks at a terminal and nowhere else."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

GPUPOOL = str(Path(sys.executable).with_name("gpupool"))


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [GPUPOOL, "init", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def at_a_terminal(folder: Path, typed: str, *arguments: str) -> int:
    """The exit code of `gpupool init` where `typed` is what somebody types."""
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    command = [GPUPOOL, "init", *arguments]
    try:
        return subprocess.run(
            command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, check=False
        ).returncode
    finally:
        os.close(ours)
        os.close(theirs)


def test_without_a_terminal_defaults_are_taken(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "written  environments/dev.yaml" in done.stdout
    again = run(tmp_path, "--format", "json")
    found = json.loads(again.stdout)
    assert (found["folder"], found["written"]) == (str(tmp_path), [])
    assert "environments/dev.yaml" in found["kept"]


def test_at_a_terminal_it_asks_for_what_no_option_gives(tmp_path: Path) -> None:
    assert at_a_terminal(tmp_path, "static\nrtx-4090\n", "--name", "desk") == 0
    made = yaml.safe_load((tmp_path / "environments" / "desk.yaml").read_text())
    assert (made["cluster"]["platform"], made["pools"][0]["gpu"]) == ("static", "rtx-4090")


@pytest.mark.parametrize("typed", ["dev\ncloud\nt4\n", "dev\nlocal\nt5\n", "a b\nlocal\nt4\n"])
def test_a_wrong_answer_writes_nothing(tmp_path: Path, typed: str) -> None:
    assert at_a_terminal(tmp_path, typed) == 2
    assert list(tmp_path.iterdir()) == []
