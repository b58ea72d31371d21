"""What killed engines, full disks and bad luck leave among the state's files: the next `up` gets past it.

What the engine makes of such files is the engine's own behaviour, so all of it runs on a real one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.infra import stack
from gpupool.infra.disk_reserve import DiskFullError
from gpupool.infra.pulumi_plugins.env import file_backend
from gpupool.infra.stack import StackError
from gpupool.infra.state_files import DamagedStateError
from gpupool.programs import binaries
from tests.required_programs import absent

WRITTEN = 60
"""Bytes of a lock that an engine may write: more than half of one."""
TMPFS_BYTES = 64 * 2**20
"""Room for many copies of the state: each run leaves two."""
OBJECTS = 15
"""After so many objects the disk is full: the middle of the run."""


def lock_folder(world: Any) -> Path:
    made: Path = world.state / ".pulumi" / "locks" / "organization" / "gpupool" / "trial"
    made.mkdir(parents=True, exist_ok=True)
    return made


def state_file(world: Any) -> Path:
    found: Path = world.state / ".pulumi" / "stacks" / "gpupool" / "trial.json"
    return found


def plain_pulumi(world: Any, *arguments: str, under: tuple[str, ...] = (), **options: Any) -> Any:
    """The engine alone, run by `under` on the stack's state, to its end."""
    program = binaries.locate("pulumi", print)
    variables = {"PULUMI_BACKEND_URL": file_backend(world.state), "PULUMI_CONFIG_PASSPHRASE": ""}
    return subprocess.run(
        [*under, program, "--non-interactive", *arguments, "--stack", "trial"],
        cwd=world.project(),
        env={**os.environ, **variables, "PULUMI_SKIP_UPDATE_CHECK": "true"},
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def assert_converges(world: Any, before: set[Any]) -> None:
    """The cluster holds what it held, once, and the state agrees."""
    assert world.everything() == before
    assert world.up().objects == []
    assert world.refresh().objects == []


@pytest.fixture
def deployed(world: Any, tmp_path: Path) -> Any:
    """The world after `up`, with its state exported to `deployment.json`."""
    world.up()
    exported = plain_pulumi(world, "stack", "export", "--file", str(tmp_path / "deployment.json"))
    assert exported.returncode == 0, exported.stderr
    return world


def test_an_engine_that_could_not_write_its_lock_does_not_lock_the_stack(
    deployed: Any, tmp_path: Path
) -> None:
    """The system lets the engine write so many bytes only: what it leaves is half a lock."""
    before, folder = deployed.everything(), lock_folder(deployed)
    bounded = plain_pulumi(
        deployed,
        *("stack", "import", "--file", str(tmp_path / "deployment.json")),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (WRITTEN, WRITTEN)),
    )
    left = list(folder.iterdir())
    assert [(path.suffix, path.stat().st_size) for path in left] == [(".tmp", WRITTEN)], bounded.stderr
    blocked = plain_pulumi(deployed, "stack", "import", "--file", str(tmp_path / "deployment.json"))
    assert "unexpected end of JSON input" in blocked.stderr, "the engine gets past it by itself"
    assert "removed the lock of a run that was killed" in deployed.up().notes
    assert list(folder.iterdir()) == []
    assert_converges(deployed, before)


def test_an_engine_killed_before_it_renamed_its_lock_does_not_lock_the_stack(
    deployed: Any, tmp_path: Path
) -> None:
    strace = shutil.which("strace")
    if strace is None:
        absent("no strace to kill the engine at its rename; Debian: apt-get install strace")
    before, folder = deployed.everything(), lock_folder(deployed)
    killed = plain_pulumi(
        deployed,
        *("stack", "import", "--file", str(tmp_path / "deployment.json")),
        under=(strace, "-f", "-qq", "-e", "trace=renameat", "-e", "inject=renameat:signal=SIGKILL"),
    )
    assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), killed.stderr
    assert [path.suffix for path in folder.iterdir()] == [".tmp"]
    assert "removed the lock of a run that was killed" in deployed.up().notes
    assert list(folder.iterdir()) == []
    assert_converges(deployed, before)


def test_every_other_form_at_once_does_not_lock_the_stack(deployed: Any) -> None:
    before, folder = deployed.everything(), lock_folder(deployed)
    forms = ("", '{"pid":4711,"username":"some', '{"pid":"x"}', "[]", "\0\0\0\0")
    for number, text in enumerate(forms):
        path = folder / f"4d0c7a9e-0000-4000-8000-00000000000{number}.json"
        path.write_text(text)
        os.utime(path, (0, 0))
    (folder / "4d0c7a9e-0000-4000-8000-000000000009.json").mkdir()
    assert "removed the lock of a run that was killed" in deployed.up().notes
    assert [path.is_dir() for path in folder.iterdir()] == [True]
    assert_converges(deployed, before)


@pytest.fixture
def small_disk(world: Any) -> Iterator[Path]:
    """The folder of the state, on a disk of its own of TMPFS_BYTES."""
    world.state.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", str(world.state)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        absent(f"no tmpfs can be mounted here (root may): {mounted.stderr.strip()}")
    try:
        yield world.state
        (world.state / "filler").unlink(missing_ok=True)
        world.destroy()
    finally:
        subprocess.run(["umount", "-l", str(world.state)], check=True)


def fill(folder: Path) -> None:
    """Leave no byte of the disk."""
    with (folder / "filler").open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while stream.write(b"x" * 4096):
            pass


def test_a_full_disk_is_named_before_anything_is_changed(world: Any, small_disk: Path) -> None:
    before = world.everything()
    fill(small_disk)
    with pytest.raises(DiskFullError, match=rf"^{small_disk}/\.pulumi: the disk has no space for a state of"):
        world.up()
    assert world.everything() == before


def test_a_read_only_disk_is_named_before_anything_is_changed(world: Any, small_disk: Path) -> None:
    before = world.everything()
    world.up()
    made = world.everything()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    try:
        with pytest.raises(
            DiskFullError,
            match=rf"^{small_disk}/\.pulumi: .*Read-only.*nothing was changed. Make it writable",
        ):
            world.destroy()
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert world.everything() == made != before
    assert_converges(world, made)


def test_a_disk_that_fills_up_meanwhile_is_named_and_the_next_up_converges(
    world: Any, small_disk: Path
) -> None:
    begun: list[str] = []

    def notify(step: str) -> None:
        begun.append(step)
        if sum(line.startswith("create ") for line in begun) == OBJECTS:
            fill(small_disk)

    with pytest.raises(
        StackError, match=rf"^{small_disk}/\.pulumi: the disk is full.*run this again"
    ) as failed:
        stack.up(stack.read(world.file), (), notify)
    assert "no space left" not in str(failed.value)
    (small_disk / "filler").unlink()
    assert "checkpoint" in json.loads(state_file(world).read_text()), "the state is whole"
    world.up()
    before = world.everything()
    assert_converges(world, before)
    assert not [path for path in small_disk.rglob("*.tmp") if "trial" in str(path.relative_to(small_disk))]


@pytest.mark.parametrize("damage", ["cut off", "empty", "of another form", "of another type within"])
def test_a_damaged_state_is_recovered_by_the_command_that_is_named(deployed: Any, damage: str) -> None:
    before, state = deployed.everything(), state_file(deployed)
    content = state.read_text()
    forms = {
        "cut off": content[: len(content) // 2],
        "empty": "",
        "of another form": "[1]",
        "of another type within": content.replace('"manifest":{', '"manifest":5,"was":{'),
    }
    state.write_text(forms[damage])
    for command in (deployed.up, deployed.preview, deployed.refresh, deployed.destroy):
        with pytest.raises(DamagedStateError, match=f"^{state}: the state of trial is damaged") as refused:
            command()
    copy = re.search(r": (cp \S+ \S+) && gpupool refresh trial$", str(refused.value))
    assert copy is not None, refused.value
    subprocess.run(copy[1], shell=True, check=True)
    deployed.refresh()
    deployed.up()
    assert_converges(deployed, before)


def test_a_state_that_is_lost_with_its_copy_is_found_again_by_labels(deployed: Any) -> None:
    before, state = deployed.everything(), state_file(deployed)
    for path in (state, state.with_name("trial.json.bak")):
        path.write_text('{"version":3,')
    with pytest.raises(DamagedStateError, match="there is no valid copy") as refused:
        deployed.up()
    move = re.search(r": (mv \S+ \S+) && gpupool up trial$", str(refused.value))
    assert move is not None, refused.value
    subprocess.run(move[1], shell=True, check=True)
    deployed.up()
    assert_converges(deployed, before)
