"""A release's files, built twice from one commit: the same bytes, and what a release is made of."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import required_programs as programs
from tests.releases import load

ROOT = Path(__file__).parents[3]


def test_two_builds_of_a_commit_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs.require("helm")
    release = load(ROOT)
    monkeypatch.setattr(
        release, "bills_of_materials", lambda *_: None
    )  # its program is installed by make audit
    monkeypatch.setattr(release, "BUILDERS", ())
    sums = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (missing,) = release.build("HEAD", release.present(), tmp_path / name)
        assert missing.startswith("no image")
        sums.append(release.sums(tmp_path / name))
    assert sums[0] == sums[1]
    version = subprocess.check_output(["git", "show", "HEAD:pyproject.toml"], cwd=ROOT, text=True)
    version = version.partition('version = "')[2].partition('"')[0]
    assert [line.split()[1] for line in sums[0].splitlines()] == [
        f"gpu-scheduler-{version}.tgz",
        f"gpupool-{version}-py3-none-any.whl",
        f"gpupool-{version}.tar.gz",
        f"gpupool_client-{version}-py3-none-any.whl",
        f"gpupool_client-{version}.tar.gz",
        f"gpupool_queue-{version}-py3-none-any.whl",
        f"vapcheck-{version}-py3-none-any.whl",
        f"vapcheck-{version}.tar.gz",
    ]
