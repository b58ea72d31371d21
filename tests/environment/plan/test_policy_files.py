"""Which policy files an environment has: the shipped ones, and those of its project."""

from __future__ import annotations

from pathlib import Path

from gpupool.environment.plan.policy_files import SHIPPED, policy_files


def test_a_project_adds_and_replaces(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    folder = tmp_path / "policies"
    (folder / "team").mkdir(parents=True)
    for name in ("own.yaml", "other.yml", "pin-images.yml", "notes.txt", "team/deep.yaml"):
        (folder / name).write_text("")
    files = policy_files(tmp_path / "environments" / "dev.yaml")
    shipped = {path.stem: path for path in SHIPPED.glob("*.yaml")}
    found = {path.stem: path for path in files}
    assert found["own"] == folder / "own.yaml"
    assert found["other"] == folder / "other.yml"
    assert found["pin-images"] == folder / "pin-images.yml", "in place of the shipped one"
    assert set(found) == {*shipped, "own", "other"}
    assert list(files) == sorted(files, key=lambda path: path.stem)


def test_without_a_project(tmp_path: Path) -> None:
    assert policy_files(None) == policy_files(tmp_path / "dev.yaml") == tuple(sorted(SHIPPED.glob("*.yaml")))
