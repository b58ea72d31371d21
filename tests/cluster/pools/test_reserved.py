"""The real Karpenter fills what is reserved first, and buys the rest beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.model import POOL_LABEL, Pool
from gpupool.local.control_plane import ControlPlane
from tests.cluster.pools.command_line import CommandLine
from tests.cluster.pools.pods import make_pods, running_on
from tests.environment_files import environment_data, write_environment

_POOL = {
    "name": "bought",
    "gpu": "t4",
    "sharing": {"mode": "time-slicing", "replicas": 2},
    "nodes": {
        "instanceTypes": ["g4dn.xlarge"],
        "max": 5,
        "capacity": ["spot", "on-demand"],
        "consolidateAfter": "5s",
        "reserved": [{"id": "cr-0a1b2c", "count": 2}],
    },
}


@pytest.fixture
def pool(cluster: Any, control_plane: ControlPlane, tmp_path: Path) -> Iterator[Pool]:
    file = write_environment(tmp_path, environment_data("local", pools=[_POOL]))
    commands = CommandLine(file, control_plane)
    commands.up()
    yield commands.plan.pools[0]
    commands.run("destroy", "--yes")


def _bought(cluster: Any, pool: Pool) -> Counter[str]:
    nodes = cluster.nodes(f"{POOL_LABEL}={pool.name}")
    return Counter(node["metadata"]["labels"]["karpenter.sh/capacity-type"] for node in nodes)


def test_reserved_nodes_are_filled_first(pool: Pool, cluster: Any) -> None:
    """By slices: two nodes hold four of them."""
    resource = next(iter(pool.slices_per_node))
    make_pods(cluster, pool, [resource] * 4)
    cluster.wait("four pods run", lambda: running_on(cluster, pool, 4))
    # A busy Karpenter may start a node too many (docs/known-limits.md); it goes as it is empty.
    cluster.wait("two nodes", lambda: _bought(cluster, pool) == {"reserved": 2})
    make_pods(cluster, pool, [resource] * 6, 4)
    cluster.wait("ten pods run", lambda: running_on(cluster, pool, 10))
    cluster.wait("five nodes", lambda: _bought(cluster, pool) == {"reserved": 2, "spot": 3})
