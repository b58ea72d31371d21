"""`gpupool report` as people and workflows call it, in a real repository."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gpupool.cli import main
from tests.environment_files import write_environment
from tests.review.report.plans import EKS, STATIC
from tests.review.report.test_git_states import commit, git

TODAY = ("--today", "2026-09-01")
Run = Callable[..., "Done"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two environments on main; on the working tree one of them has other labels on a pool."""
    git(tmp_path, "init", "-q", "-b", "main")
    prod, environments = {**deepcopy(EKS), "metadata": {"name": "prod"}}, tmp_path / "environments"
    write_environment(environments, prod)
    write_environment(environments, {**STATIC, "metadata": {"name": "rack"}})
    commit(tmp_path)
    prod["pools"][0]["labels"] = {"a": "b"}
    write_environment(environments, prod)
    return tmp_path


@dataclass
class Done:
    stdout: str
    stderr: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """The command line in this process, where policies are compiled once for all tests."""

    def call(folder: Path, *arguments: str, code: int = 0) -> Done:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["gpupool", "report", *arguments])
        try:
            main.run()
            ended = 0
        except SystemExit as exit_:
            ended = int(exit_.code or 0)
        done = Done(*capsys.readouterr())
        assert ended == code, done.stdout + done.stderr
        return done

    return call


def test_text_of_the_working_tree(project: Path, run: Run) -> None:
    said = run(project, "--base", "main", *TODAY).stdout
    assert said.splitlines()[0].startswith("main (")
    assert "DANGER drain: pool shared: up to 2 nodes are replaced" in said
    assert "why: label a=b is new" in said
    assert said.splitlines()[-1] == "Unchanged: rack."
    assert "\x1b" not in said


def test_json_is_the_same_every_time(project: Path, run: Run) -> None:
    first = run(project, "--base", "main", "--format", "json", *TODAY).stdout
    assert run(project / "environments", "--base", "main", "--format", "json", *TODAY).stdout == first
    said = json.loads(first)
    assert (said["schema"], said["valid"], said["dangers"]) == (2, True, 2)
    assert [each["change"] for each in said["environments"]] == ["changed", "unchanged"]
    assert said["head"]["name"] == "working tree"
    assert said["head"]["dirty"] is True


def test_a_commit_against_another(project: Path, run: Run) -> None:
    commit(project)
    said = json.loads(run(project, "prod", "--base", "HEAD~1", "--head", "HEAD", "--format", "json").stdout)
    assert [each["name"] for each in said["environments"]] == ["prod"]
    assert said["head"]["dirty"] is False
    same = run(project, "--base", "main").stdout
    assert "no environment changes" in same


def test_every_format_can_be_written_to_a_file(project: Path, run: Run) -> None:
    for name, start in (("markdown", "<!-- gpupool report -->"), ("html", "<!doctype html>"), ("json", "{")):
        file = project / f"report.{name}"
        done = run(project, "--base", "main", "--format", name, "--output", str(file))
        assert done.stdout == ""
        assert file.read_text(encoding="utf-8").lower().startswith(start)


def test_an_invalid_file_is_reported_and_fails(project: Path, run: Run) -> None:
    (project / "environments" / "rack.yaml").write_text("kind: Environment\n")
    said = run(project, "--base", "main", code=1).stdout
    assert "environments/rack.yaml is not valid after the change" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--base is missing"),
        (["--base", "nowhere"], "nowhere: no commit, branch or tag of that name here"),
        (["--base", "main", "--head", "nowhere"], "nowhere: no commit"),
        (
            ["other", "--base", "main"],
            "no environment 'other' at main or working tree; environments: prod, rack",
        ),
        (["--base", "main", "--cluster", "other"], "--cluster other: neither state has such an environment"),
        (["--base", "main", "--output", "/nowhere/report"], "/nowhere/report: No such file or directory"),
        (["--base", "main", "--today", "tomorrow"], "--today"),
    ],
)
def test_wrong_use(project: Path, run: Run, arguments: list[str], said: str) -> None:
    done = run(project, *arguments, code=2)
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_folder_without_environments(tmp_path: Path, run: Run) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    done = run(tmp_path, "--base", "main", code=2)
    assert "no environments in environments, neither in main nor in working tree" in done.stderr


def test_an_environment_that_gets_another_name_is_said(project: Path, run: Run) -> None:
    path = project / "environments" / "prod.yaml"
    data = yaml.safe_load(path.read_text())
    path.unlink()
    write_environment(path.parent, data | {"metadata": {"name": "production"}})
    said = run(project, "--base", "main", "--format", "markdown", *TODAY).stdout
    assert "production is for the cluster of prod, as if it were renamed." in said


def test_outside_of_a_repository(tmp_path: Path, run: Run) -> None:
    write_environment(tmp_path / "environments", EKS)
    assert "not the working tree of a Git repository" in run(tmp_path, "--base", "main", code=2).stderr
