"""Where the file backend keeps its files, and what is left over beside a state."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from infra.local.binaries import PROJECT_ROOT
from infra.local.pulumi_env import file_backend
from infra.state_files import clear_left, folder


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///var/state", Path("/var/state/.pulumi")),
        ("file:///var/my%20state?metadata=skip", Path("/var/my state/.pulumi")),
        ("file://~", Path.home() / ".pulumi"),
        ("file://~/state", Path.home() / "state" / ".pulumi"),
        ("file://state", PROJECT_ROOT / "state" / ".pulumi"),
        ("s3://bucket/state", None),
        ("", None),
    ],
)
def test_the_folder_of_a_backend_is_where_pulumi_looks(url: str, path: Path | None) -> None:
    assert folder(url) == path


def test_copies_that_never_got_their_name_are_removed_once_they_are_old(tmp_path: Path) -> None:
    stacks = tmp_path / ".pulumi" / "stacks" / "gpupool"
    stacks.mkdir(parents=True)
    names = ("trial.json", "trial.json.bak", "trial.json.187a4c2c4a1b2c3d.tmp", "trials.json.187a4c.tmp")
    for name in (*names, "trial.json.ffff.tmp"):
        (stacks / name).write_text("{")
    for name in names:
        os.utime(stacks / name, (time.time() - 3600, time.time() - 3600))
    assert clear_left(file_backend(tmp_path), "gpupool", "trial") == 1
    left = {path.name for path in stacks.iterdir()}
    assert left == {"trial.json", "trial.json.bak", "trials.json.187a4c.tmp", "trial.json.ffff.tmp"}
