"""The whole way with the real command line and the real Karpenter: preview, repartition, up, rollback.

Machines that Karpenter has started keep running, whatever their pool's template says meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.model import POOL_LABEL
from gpupool.live.rollback import last_good
from gpupool.local.control_plane import ControlPlane
from tests.cluster.pools.command_line import CommandLine, Object
from tests.cluster.pools.pods import make_pods, running_on
from tests.cluster.repartition.conftest import slices
from tests.environment_files import environment_data

POOL: Object = {
    "name": "parted",
    "gpu": "a100-80gb",
    "sharing": {"mode": "mig", "layout": {"3g.40gb": 1, "2g.20gb": 2}},
    "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 2, "consolidateAfter": "1h"},
}
FILE: Object = environment_data(
    "local",
    name="local",
    pools=[POOL],
    tenants=[
        {"name": "vision", "namespace": "team-vision", "pools": {"parted": {"profiles": {"3g.40gb": 8}}}}
    ],
)
LARGE, MIXED = {"nvidia.com/mig-3g.40gb": 16}, {"nvidia.com/mig-3g.40gb": 8, "nvidia.com/mig-2g.20gb": 16}


@pytest.fixture
def two_nodes(cluster: Any, control_plane: ControlPlane, tmp_path: Path) -> Iterator[CommandLine]:
    """The environment applied, two nodes of its pool with pods on them, and that noted as good."""
    cluster.wipe()  # namespaces too, which `up` makes itself
    commands = CommandLine(tmp_path / "local.yaml", control_plane)
    commands.write(deepcopy(FILE))
    commands.up()
    pool = commands.plan.pool("parted")
    with cluster.at_once():
        make_pods(cluster, pool, ["nvidia.com/mig-3g.40gb"] * 9)
    cluster.wait("nine pods on two nodes", lambda: running_on(cluster, pool, 9))
    cluster.wait("two nodes", lambda: offered(cluster) == [MIXED, MIXED])
    last_good.record(cluster.api, commands.plan, commands.file.read_text(), datetime.now(UTC))
    yield commands
    commands.run("destroy", "--yes")


def offered(cluster: Any) -> list[dict[str, int]]:
    return [slices(node) for node in cluster.nodes(f"{POOL_LABEL}=parted")]


def machines(cluster: Any) -> dict[str, str]:
    """Name -> identity of nodes and node claims: a replaced one has another."""
    found = [*cluster.nodes(f"{POOL_LABEL}=parted"), *cluster.api.list("karpenter.sh/v1", "NodeClaim")]
    return {f"{one['kind']}/{one['metadata']['name']}": one["metadata"]["uid"] for one in found}


def calm(cluster: Any) -> bool:
    """Karpenter has nothing against any claim, and the pool's own budgets hold again."""
    for claim in cluster.api.list("karpenter.sh/v1", "NodeClaim"):
        rows = {row["type"]: row["status"] for row in claim["status"]["conditions"]}
        assert rows.get("Drifted") != "True", claim["metadata"]["name"]
        assert not claim["metadata"].get("deletionTimestamp"), claim["metadata"]["name"]
    pool = cluster.get("karpenter.sh/v1", "NodePool", "parted")
    assert pool["spec"]["disruption"]["budgets"] != [{"nodes": "0"}]
    return True


def test_machines_stay_when_their_layout_changes(two_nodes: CommandLine, cluster: Any) -> None:
    before, text = machines(cluster), two_nodes.file.read_text()

    def edit(data: Object) -> None:
        data["pools"][0]["sharing"]["layout"] = {"3g.40gb": 2}

    two_nodes.change(edit)
    warned = [
        note for note in two_nodes.json("preview")["notes"] if "gpupool repartition local parted" in note
    ]
    assert "`up` makes Karpenter replace 2 nodes, and 9 GPU pods run there." in warned[0]
    reported = two_nodes.json("repartition", "parted", "--evict")
    assert reported["status"] == "done", reported
    assert offered(cluster) == [LARGE, LARGE]
    assert machines(cluster) == before
    assert calm(cluster)
    nodes = {n["metadata"]["name"]: n["metadata"]["labels"] for n in cluster.nodes(f"{POOL_LABEL}=parted")}
    two_nodes.up()
    cluster.stays("Karpenter leaves them alone", lambda: calm(cluster) and machines(cluster) == before, 5.0)
    labels = {n["metadata"]["name"]: n["metadata"]["labels"] for n in cluster.nodes(f"{POOL_LABEL}=parted")}
    assert labels == nodes, "`up` has changed nothing about the nodes"
    status = cluster.get("karpenter.sh/v1", "NodePool", "parted")["status"]["resources"]
    assert status["nvidia.com/mig-3g.40gb"] == "32", "Karpenter counts the new slices"

    two_nodes.run("rollback", code=2)
    back = two_nodes.json("rollback", "--yes", "--write", "--evict")
    assert back["done"], back
    assert [row["status"] for row in back["pools"]] == ["done"]
    assert any(line.startswith("+") and "2g.20gb" in line for line in back["difference"])
    assert offered(cluster) == [MIXED, MIXED]
    assert machines(cluster) == before
    assert calm(cluster)
    assert two_nodes.file.read_text() == text
