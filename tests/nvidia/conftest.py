"""The nodes that NVIDIA's programs run on."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.nvidia.node import DISCOVERY, MIG_PARTED, MPS, PLUGIN, Node
from tests.required_programs import absent


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    """A node with the device plugin, feature discovery and the MPS daemon."""
    with _node(PLUGIN, DISCOVERY, MPS) as made:
        yield made


@pytest.fixture(scope="session")
def mig_node() -> Iterator[Node]:
    """A node with mig-parted."""
    with _node(MIG_PARTED) as made:
        yield made


@contextmanager
def _node(*programs: str) -> Iterator[Node]:
    if sys.platform != "linux":
        absent("NVIDIA's programs run on Linux")
    root = tempfile.mkdtemp(prefix="node-")  # a short path: those of sockets may have 107 characters
    try:
        made = Node(Path(root), programs)
        made.require_chroot()
        yield made
    finally:
        shutil.rmtree(root)
