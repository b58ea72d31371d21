"""Rendering into a folder: exactly what is wanted, nothing of anybody else's, safe to interrupt."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.environment.plan.resolve import read_plan
from gpupool.findings import GpupoolError
from gpupool.generators import generate
from gpupool.generators.layout import INDEX
from gpupool.generators.render import UnreadableIndexError, check, files, write

LOCAL, DEV = generate(read_plan("local")), generate(read_plan("dev"))
SMALLER = replace(DEV, environment="local")
"""What is left of `local` after a change that takes most of it away."""


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_one_file_for_each_object_and_an_index(tmp_path: Path) -> None:
    differences = write(DEV, tmp_path / "new" / "folder")
    written = content(tmp_path / "new" / "folder")
    assert set(written) == set(differences.missing) == set(files(DEV))
    index = json.loads(written[INDEX])
    assert (index["schema"], index["environment"]) == (1, "dev")
    assert {row["path"] for row in index["objects"]} | {INDEX} == set(written)
    kinds = [row["kind"] for row in index["objects"]]
    assert kinds.index("Namespace") < kinds.index("ResourceQuota") < kinds.index("NodePool")


def test_a_second_time_nothing_is_written(tmp_path: Path) -> None:
    write(LOCAL, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert not write(LOCAL, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_what_is_no_longer_wanted_goes_with_its_folder(tmp_path: Path) -> None:
    write(LOCAL, tmp_path)
    differences = write(SMALLER, tmp_path)
    assert "team-vision/resourcequota-gpupool.yaml" in differences.extra
    assert set(content(tmp_path)) == set(files(SMALLER))
    assert not (tmp_path / "team-vision").exists()


def test_files_of_others_stay(tmp_path: Path) -> None:
    write(LOCAL, tmp_path)
    theirs = [
        tmp_path / "README.md",
        tmp_path / "team-vision" / "kustomization.yaml",
        tmp_path / "cluster" / "x.yaml",
    ]
    for path in theirs:
        path.write_text("mine")
    differences = write(SMALLER, tmp_path)
    assert [path.read_text() for path in theirs] == ["mine"] * 3
    assert differences.unknown == ("cluster/x.yaml", "team-vision/kustomization.yaml")


@pytest.mark.parametrize(
    "path",
    ["cluster/nodepool-extra.yaml", "extra.yml", "new/folder/below/x.json", ".hidden/x.yaml", "x.jsonnet"],
)
def test_check_lists_what_would_be_applied_with_the_rest(tmp_path: Path, path: str) -> None:
    """Argo CD reads every such file below the folder."""
    write(LOCAL, tmp_path)
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("kind: NodePool\n")
    differences = check(LOCAL, tmp_path)
    assert differences.unknown == (path,)
    assert differences
    assert not differences.stale


def test_files_that_are_not_applied_are_allowed(tmp_path: Path) -> None:
    write(LOCAL, tmp_path)
    for path in ("README.md", "cluster/notes.txt", "cluster/.x.yaml.part", ".git/refs/heads/fix.yaml"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("mine")
    assert not check(LOCAL, tmp_path)
    assert not write(LOCAL, tmp_path)


def test_files_of_a_rendering_whose_index_is_gone_are_not_forgotten(tmp_path: Path) -> None:
    write(LOCAL, tmp_path)
    (tmp_path / INDEX).unlink()
    write(SMALLER, tmp_path)
    assert "team-vision/resourcequota-gpupool.yaml" in check(SMALLER, tmp_path).unknown


def test_check_lists_what_differs_and_writes_nothing(tmp_path: Path) -> None:
    write(LOCAL, tmp_path)
    assert not check(LOCAL, tmp_path)
    (tmp_path / "cluster/namespace-team-vision.yaml").unlink()
    (tmp_path / "cluster/namespace-team-serving.yaml").write_text("a: 1\n")
    before = content(tmp_path)
    differences = check(LOCAL, tmp_path)
    assert differences.missing == ("cluster/namespace-team-vision.yaml",)
    assert differences.changed == ("cluster/namespace-team-serving.yaml",)
    assert differences.extra == ()
    assert check(SMALLER, tmp_path).extra
    assert content(tmp_path) == before


def test_other_line_ends_are_a_difference(tmp_path: Path) -> None:
    write(LOCAL, tmp_path)
    path = tmp_path / "cluster/namespace-team-vision.yaml"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert check(LOCAL, tmp_path).changed == ("cluster/namespace-team-vision.yaml",)


CONFLICT = b'{\n<<<<<<< HEAD\n  "schema": 1,\n=======\n  "schema": 2,\n>>>>>>> main\n}\n'
RUBBISH = [b"\xff", b"", b"[]", b"{", b'{"objects": 3}', b'{"objects": [3]}', b"[" * 100_000, CONFLICT]


@pytest.mark.parametrize("rubbish", RUBBISH)
def test_a_broken_index_is_not_written_over(tmp_path: Path, rubbish: bytes) -> None:
    """It would forget the files that are no longer wanted, and leave them to be applied for good."""
    write(LOCAL, tmp_path)
    (tmp_path / INDEX).write_bytes(rubbish)
    before = content(tmp_path)
    with pytest.raises(UnreadableIndexError, match="delete the folder, and render again") as refused:
        write(SMALLER, tmp_path)
    assert str(refused.value).startswith(str(tmp_path / INDEX) + (":2: " if rubbish is CONFLICT else ":"))
    assert content(tmp_path) == before
    assert check(LOCAL, tmp_path).changed == (INDEX,)
    assert "team-vision/resourcequota-gpupool.yaml" in check(SMALLER, tmp_path).unknown


def test_the_rendering_of_another_environment_is_left_alone(tmp_path: Path) -> None:
    write(LOCAL, tmp_path)
    before = content(tmp_path)
    for verb in (write, check):
        with pytest.raises(GpupoolError, match="environment 'local', not of 'dev'; use another folder"):
            verb(DEV, tmp_path)
    assert content(tmp_path) == before


def test_a_tampered_index_removes_nothing_that_is_not_a_rendered_file(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "rendered"
    for path in (outside / "x.yaml", inside / "notes.md", inside / "a" / "notes.md", inside / "top.yaml"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    (inside / "link").symlink_to(outside)
    listed = [
        "../outside/x.yaml",
        str(outside / "x.yaml"),
        "a/../../outside/x.yaml",
        "link/x.yaml",
        "notes.md",
    ]
    listed += ["a/notes.md", "top.yaml", "", ".", "a", "a/\0.yaml", "\0/y.yaml", "x" * 5000 + "/y.yaml"]
    index = {"environment": "local", "objects": [{"path": path} for path in listed]}
    (inside / INDEX).write_text(json.dumps(index))
    assert write(LOCAL, inside).extra == ()
    for path in (outside / "x.yaml", inside / "notes.md", inside / "a" / "notes.md", inside / "top.yaml"):
        assert path.read_text() == "mine"


def test_an_interrupted_rendering_is_completed_by_the_next(tmp_path: Path) -> None:
    """The index is written last: until then the old one knows the files that must go."""
    write(LOCAL, tmp_path)
    old = (tmp_path / INDEX).read_bytes()
    last = tmp_path / sorted(set(files(SMALLER)) - set(files(LOCAL)))[-1]
    obstacle = last.with_name(f".{last.name}.part")
    obstacle.mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        write(SMALLER, tmp_path)
    assert (tmp_path / INDEX).read_bytes() == old
    assert any((tmp_path / path).exists() for path in set(files(SMALLER)) - set(files(LOCAL))), "it had begun"
    obstacle.rmdir()
    write(SMALLER, tmp_path)
    assert set(content(tmp_path)) == set(files(SMALLER))
