"""`gpupool local`: what its options ask of the control plane."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpupool.cli.local import app
from gpupool.local import control_plane
from gpupool.programs.failures import LocalError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("options", "build"), [([], False), (["--build"], True)])
def test_build_is_told_to_who_gets_the_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], build: bool
) -> None:
    asked: list[bool] = []

    def locate_all(names: object, report: object, build: bool = False) -> None:
        asked.append(build)
        raise LocalError("enough")

    monkeypatch.setattr(control_plane.binaries, "locate_all", locate_all)
    result = CliRunner().invoke(app, ["up", "--dir", str(tmp_path / "data"), *options])
    assert isinstance(result.exception, LocalError)
    assert asked == [build]


@pytest.mark.parametrize(
    ("arguments", "verb", "releases"), [([], "local up", "-"), (["BUILD=1"], "local up --build", "off")]
)
def test_make_up_builds_everything_when_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], verb: str, releases: str
) -> None:
    monkeypatch.delenv("GPUPOOL_RELEASES", raising=False)
    shutil.copy(ROOT / "Makefile", tmp_path)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "tools" / "kubernetes").mkdir(parents=True)
    (tmp_path / "vapcheck").mkdir()
    (tmp_path / "gpupool" / "queue").mkdir(parents=True)
    for name in ("gpupool", "go"):
        (programs / name).write_text('#!/bin/sh\necho "$@ ${GPUPOOL_RELEASES--}"\n')
        (programs / name).chmod(0o755)
    projects = ("pyproject.toml", "vapcheck/pyproject.toml", "gpupool/queue/pyproject.toml")
    for name in ("requirements-dev.lock", *projects, ".venv/.ready"):
        (tmp_path / name).touch()
    command = ["make", "--silent", "up", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[:2] == [f"{verb} {releases}", f"up local --yes {releases}"]
