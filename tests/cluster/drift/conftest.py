"""One applied environment for all tests of this folder; each leaves it as the file says.

The first test of another folder wipes it away with everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from gpupool.local.control_plane import ControlPlane
from tests.cluster.drift.world import ENVIRONMENT, World
from tests.cluster.pools.command_line import CommandLine


@pytest.fixture(scope="session")
def applied(
    kube: Any, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """The environment, applied with the real command line; a node of each warm pool is there."""
    kube.wipe()
    file = tmp_path_factory.mktemp("drift") / "drifting.yaml"
    made = World(CommandLine(file, control_plane), kube)
    made.commands.write(deepcopy(ENVIRONMENT))
    made.commands.up()
    for pool in ("notebooks", "models"):
        kube.wait(f"a node of {pool}", lambda pool=pool: kube.nodes(f"karpenter.sh/nodepool={pool}"), 60)
    made.clean()
    yield made
    made.wipe()


@pytest.fixture
def world(applied: World) -> World:
    """The environment with nothing wrong in it."""
    applied.commands.write(deepcopy(ENVIRONMENT))
    if applied.touched:
        applied.commands.run("refresh")
        applied.commands.up()
        applied.touched = False
    applied.clean()
    return applied
