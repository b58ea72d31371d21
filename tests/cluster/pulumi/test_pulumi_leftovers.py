"""What killed engines, full disks and bad luck leave among the state's files: the next `up` gets past it.

What the engine makes of such files is the engine's own behaviour, so all of it runs on a real one.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.findings import GpupoolError
from infra.local import binaries
from infra.local.pulumi_env import file_backend
from infra.state_files import DamagedStateError

UUID = "4d0c7a9e-0000-4000-8000-00000000000"
WRITTEN = 60
"""Bytes of a lock that an engine may write: about half of one."""
HOUR = 3600.0


def lock_folder(world: Any) -> Path:
    made: Path = world.state / ".pulumi" / "locks" / "organization" / "gpupool" / "trial"
    made.mkdir(parents=True, exist_ok=True)
    return made


def state_file(world: Any) -> Path:
    return world.state / ".pulumi" / "stacks" / "gpupool" / "trial.json"


def assert_converges(world: Any, before: set[Any]) -> None:
    """The cluster holds what it held, once, and the state agrees."""
    assert world.everything() == before
    assert world.up().objects == []
    assert world.refresh().objects == []


def test_an_engine_killed_while_it_writes_its_lock_does_not_lock_the_stack(world: Any) -> None:
    """A real engine ends between creating the file and renaming it: the system lets it write so much only."""
    world.up()
    before, folder = world.everything(), lock_folder(world)
    variables = {**os.environ, "PULUMI_BACKEND_URL": file_backend(world.state), "PULUMI_CONFIG_PASSPHRASE": ""}
    killed = subprocess.run(
        [binaries.locate("pulumi", print), "--non-interactive", "cancel", "--yes", "-s", "trial"],
        cwd=world.project(),
        env={**variables, "PULUMI_SKIP_UPDATE_CHECK": "true"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (WRITTEN, WRITTEN)),
        capture_output=True,
        check=False,
    )
    assert killed.returncode != 0
    left = list(folder.iterdir())
    assert [path.suffix for path in left] == [".tmp"], killed.stderr.decode()
    done = world.up()
    assert done.notes[0] == "removed the lock of a run that was killed"
    assert list(folder.iterdir()) == []
    assert_converges(world, before)
