"""Rendering into a folder: exactly what is wanted, nothing of anybody else's, safe to interrupt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from generators import generate
from generators.layout import INDEX
from generators.render import check, files, write
from gpupool.resolve import read_plan

LOCAL, DEV = generate(read_plan("local")), generate(read_plan("dev"))


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
    differences = write(DEV, tmp_path)
    assert "team-vision/resourcequota-gpupool.yaml" in differences.extra
    assert set(content(tmp_path)) == set(files(DEV))
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
    write(DEV, tmp_path)
    assert [path.read_text() for path in theirs] == ["mine"] * 3


def test_check_tells_what_differs_and_writes_nothing(tmp_path: Path) -> None:
    write(LOCAL, tmp_path)
    assert not check(LOCAL, tmp_path)
    (tmp_path / "cluster/namespace-team-vision.yaml").unlink()
    (tmp_path / "cluster/namespace-team-serving.yaml").write_text("a: 1\n")
    before = content(tmp_path)
    differences = check(LOCAL, tmp_path)
    assert differences.missing == ("cluster/namespace-team-vision.yaml",)
    assert differences.changed == ("cluster/namespace-team-serving.yaml",)
    assert differences.extra == ()
    assert check(DEV, tmp_path).extra
    assert content(tmp_path) == before


def test_other_line_ends_are_a_difference(tmp_path: Path) -> None:
    write(LOCAL, tmp_path)
    path = tmp_path / "cluster/namespace-team-vision.yaml"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert check(LOCAL, tmp_path).changed == ("cluster/namespace-team-vision.yaml",)


@pytest.mark.parametrize(
    "rubbish", [b"\xff", b"", b"[]", b"{", b'{"objects": 3}', b'{"objects": [3]}', b"[" * 100_000]
)
def test_a_broken_index_is_replaced(tmp_path: Path, rubbish: bytes) -> None:
    write(LOCAL, tmp_path)
    (tmp_path / INDEX).write_bytes(rubbish)
    assert write(LOCAL, tmp_path).changed == (INDEX,)
    assert not check(LOCAL, tmp_path)


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
    (inside / INDEX).write_text(json.dumps({"objects": [{"path": path} for path in listed]}))
    assert write(LOCAL, inside).extra == ()
    for path in (outside / "x.yaml", inside / "notes.md", inside / "a" / "notes.md", inside / "top.yaml"):
        assert path.read_text() == "mine"


def test_an_interrupted_rendering_is_completed_by_the_next(tmp_path: Path) -> None:
    """The index is written last: until then the old one knows the files that must go."""
    write(LOCAL, tmp_path)
    old = (tmp_path / INDEX).read_bytes()
    last = tmp_path / sorted(set(files(DEV)) - set(files(LOCAL)))[-1]
    obstacle = last.with_name(f".{last.name}.part")
    obstacle.mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        write(DEV, tmp_path)
    assert (tmp_path / INDEX).read_bytes() == old
    assert any((tmp_path / path).exists() for path in set(files(DEV)) - set(files(LOCAL))), "it had begun"
    obstacle.rmdir()
    write(DEV, tmp_path)
    assert set(content(tmp_path)) == set(files(DEV))
