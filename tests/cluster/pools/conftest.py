"""An environment applied with the real command line to the shared control plane."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.local.control_plane import ControlPlane
from tests.cluster.pools.command_line import SHIPPED, CommandLine


@pytest.fixture
def gpupool(cluster: Any, control_plane: ControlPlane, tmp_path: Path) -> Iterator[CommandLine]:
    """A command line on a copy of the shipped local environment; everything is destroyed after the test."""
    file = tmp_path / "local.yaml"
    file.write_text(SHIPPED.read_text(encoding="utf-8"), encoding="utf-8")
    commands = CommandLine(file, control_plane)
    yield commands
    commands.run("destroy", "--yes")
