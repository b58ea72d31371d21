"""Where the file backend keeps its files, what is left beside a state, and how a damaged one is named."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment import project
from gpupool.infra.pulumi_plugins.env import file_backend
from gpupool.infra.state_files import clear_left, damaged, disk_problem, folder


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///var/state", Path("/var/state/.pulumi")),
        ("file:///var/my%20state?metadata=skip", Path("/var/my state/.pulumi")),
        ("file://~", Path.home() / ".pulumi"),
        ("file://~/state", Path.home() / "state" / ".pulumi"),
        ("file://state", project.root() / "state" / ".pulumi"),
        ("s3://bucket/state", None),
        ("", None),
    ],
)
def test_the_folder_of_a_backend_is_where_pulumi_looks(url: str, path: Path | None) -> None:
    assert folder(url) == path


def test_copies_that_never_got_their_name_are_removed(tmp_path: Path) -> None:
    stacks = tmp_path / ".pulumi" / "stacks" / "gpupool"
    stacks.mkdir(parents=True)
    kept = {"trial.json", "trial.json.bak", "trials.json.187a4c.tmp"}
    for name in (*kept, "trial.json.187a4c2c4a1b2c3d.tmp", "trial.json.bak.187a4c2c4a1b2c3d.tmp"):
        (stacks / name).write_text("{")
    history = tmp_path / ".pulumi" / "history" / "gpupool" / "trial"
    history.mkdir(parents=True)
    (history / "trial-1795.checkpoint.json.187a4c2c4a1b2c3d.tmp").touch()
    (history / "trial-1795.checkpoint.json").touch()
    assert clear_left(file_backend(tmp_path), "gpupool", "trial") == 3
    assert [path.name for path in history.iterdir()] == ["trial-1795.checkpoint.json"]
    assert {path.name for path in stacks.iterdir()} == kept


def checkpoint(**latest: Any) -> str:
    return json.dumps({"version": 3, "checkpoint": {"stack": "s", "latest": latest}})


SOUND = {
    "fresh": '{"version":3,"checkpoint":{"stack":"organization/gpupool/trial"}}',
    "empty": checkpoint(resources=None),
    "whole": checkpoint(resources=[{"urn": "urn:a", "type": "t"}], pending_operations=None),
    "under way": checkpoint(pending_operations=[{"resource": {"urn": "urn:a"}, "type": "creating"}]),
}
DAMAGED = {
    "": "it is empty",
    "\0\0\0\0": "it is empty",
    SOUND["whole"][:70]: r"invalid JSON at line 1, column \d+, of 70 bytes",
    "[" * 100_000: "invalid JSON",
    "[]": "`checkpoint` must be an object",
    '{"checkpoint":"x"}': "`checkpoint` must be an object",
    '{"checkpoint":{"latest":[1]}}': r"`checkpoint\.latest` must be an object",
    checkpoint(resources={"a": 1}): r"`checkpoint\.latest\.resources` must be a list",
    checkpoint(resources=["a"]): r"`checkpoint\.latest\.resources\[0\]` must be an object with a URN",
    checkpoint(resources=[{"urn": 5}]): r"`checkpoint\.latest\.resources\[0\]` must be an object with a URN",
    checkpoint(
        pending_operations=[{"resource": "a"}]
    ): r"`checkpoint\.latest\.pending_operations\[0\]` must be an object with a URN",
}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    made = tmp_path / ".pulumi" / "stacks" / "gpupool" / "trial.json"
    made.parent.mkdir(parents=True)
    return made


def said(state: Path, engine: str = "failed to load checkpoint: place 1: unexpected end") -> str | None:
    found = damaged(file_backend(state.parents[3]), "gpupool", "trial", engine)
    return str(found) if found else None


@pytest.mark.parametrize("form", SOUND)
def test_a_damaged_state_is_named_with_the_copy_that_can_take_its_place(state: Path, form: str) -> None:
    copy = state.with_name("trial.json.bak")
    copy.write_text(SOUND[form])
    words = (
        rf"^{state}: the state of trial is damaged \(place 1: unexpected end\); nothing was changed, .*: cp "
    )
    assert re.match(rf"{words}{copy} {state} && gpupool refresh trial$", said(state) or "")
    copy.write_bytes(gzip.compress(b"not looked into"))
    assert re.match(words, said(state) or "")


@pytest.mark.parametrize("content", DAMAGED, ids=DAMAGED.values())
def test_a_copy_that_is_damaged_as_well_is_not_recommended(state: Path, content: str) -> None:
    copy = state.with_name("trial.json.bak")
    command = rf".*: mv {state} {state}\.damaged && gpupool up trial$"
    assert re.search(rf"\({copy}: No such file or directory\){command}", said(state) or "")
    copy.write_text(content)
    assert re.search(rf"\({copy}: {DAMAGED[content]}\){command}", said(state) or "")


def test_what_else_the_engine_says_of_a_state_is_no_damage(state: Path) -> None:
    assert said(state, "failed to load checkpoint: unsupported checkpoint version 99") is None
    assert said(state, "no stack named trial") is None
    assert damaged("s3://bucket", "gpupool", "trial", "failed to load checkpoint: x") is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("write /s/.pulumi/locks/a.json.18.tmp: no space left on device", "the disk is full"),
        ("write /s/.pulumi/locks/a.json.18.tmp: disk quota exceeded", "the disk is full"),
        ("open /s/.pulumi/locks/a.json.18.tmp: read-only file system", "the disk is read-only"),
    ],
)
def test_a_disk_that_takes_nothing_is_named(line: str, words: str) -> None:
    reported = disk_problem(["update failed", f"saving: {line}"], "file:///s?metadata=skip")
    assert reported is not None
    assert reported.startswith(f"/s/.pulumi: {words}")
    assert disk_problem(["update failed"], "file:///s") is None
