"""Where the file backend keeps its files, what is left beside a state, and how a damaged one is named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from infra.local.binaries import PROJECT_ROOT
from infra.local.pulumi_env import file_backend
from infra.state_files import DamagedStateError, clear_left, disk_problem, folder, require_sound


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


def test_copies_that_never_got_their_name_are_removed(tmp_path: Path) -> None:
    stacks = tmp_path / ".pulumi" / "stacks" / "gpupool"
    stacks.mkdir(parents=True)
    kept = {"trial.json", "trial.json.bak", "trials.json.187a4c.tmp"}
    for name in (*kept, "trial.json.187a4c2c4a1b2c3d.tmp", "trial.json.bak.187a4c2c4a1b2c3d.tmp"):
        (stacks / name).write_text("{")
    assert clear_left(file_backend(tmp_path), "gpupool", "trial") == 2
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
    SOUND["whole"][:70]: r"no JSON from line 1, column \d+ on, of 70 bytes",
    "[" * 100_000: "no JSON",
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


def require(state: Path) -> None:
    require_sound(file_backend(state.parents[3]), "gpupool", "trial")


@pytest.mark.parametrize("form", SOUND)
def test_what_an_engine_writes_is_sound(state: Path, form: str) -> None:
    require(state)  # none at all
    state.write_text(SOUND[form])
    require(state)
    state.write_bytes(gzip.compress(b"not looked into"))
    require(state)


@pytest.mark.parametrize("content", DAMAGED, ids=DAMAGED.values())
def test_a_damaged_state_is_named_with_the_copy_that_can_take_its_place(state: Path, content: str) -> None:
    state.write_text(content)
    copy = state.with_name("trial.json.bak")
    with pytest.raises(DamagedStateError, match=rf"damaged \({DAMAGED[content]}.*{copy.name}: there is none"):
        require(state)
    copy.write_text("{")
    with pytest.raises(
        DamagedStateError, match=rf"{copy.name}: no JSON.*: mv {state} {state}\.damaged && gp"
    ):
        require(state)
    copy.write_text(SOUND["whole"])
    with pytest.raises(
        DamagedStateError, match=rf"^{state}: .*sound: {copy}.*: cp {copy} {state} && gpupool"
    ):
        require(state)


def test_a_state_that_can_not_be_read_says_why(state: Path) -> None:
    state.symlink_to(state)
    with pytest.raises(DamagedStateError, match=r"it can't be read: Too many levels"):
        require(state)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("write /s/.pulumi/locks/a.json.18.tmp: no space left on device", "the disk is full"),
        ("write /s/.pulumi/locks/a.json.18.tmp: disk quota exceeded", "the disk is full"),
        ("open /s/.pulumi/locks/a.json.18.tmp: read-only file system", "the disk is read-only"),
    ],
)
def test_a_disk_that_takes_nothing_is_named(line: str, words: str) -> None:
    told = disk_problem(["update failed", f"saving: {line}"], "file:///s?metadata=skip")
    assert told is not None
    assert told.startswith(f"/s/.pulumi: {words}")
    assert disk_problem(["update failed"], "file:///s") is None
