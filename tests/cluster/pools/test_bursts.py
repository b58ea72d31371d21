"""Bursts of pods on machines of several sizes: the real Karpenter keeps the bound in GPUs."""

from __future__ import annotations

from typing import Any

from gpupool.environment.plan.model import POOL_LABEL, Pool
from tests.cluster.pools.command_line import CommandLine
from tests.cluster.pools.pods import make_pods, refusal, running_on, within_bound
from tests.environment_files import environment_data

MACHINES = {"instanceTypes": ["g5.xlarge", "g5.12xlarge"], "maxGpus": 12, "consolidateAfter": "1h"}
MIXED = environment_data(
    "local",
    name="local",
    pools=[
        {"name": "whole", "gpu": "a10g", "nodes": MACHINES},
        {
            "name": "sliced",
            "gpu": "a10g",
            "sharing": {"mode": "time-slicing", "replicas": 3},
            "nodes": MACHINES,
        },
    ],
)


def gpus(cluster: Any, pool: Pool) -> int:
    """Physical GPUs of the pool's nodes, by their instance types."""
    sizes = {machine.instance_type: machine.gpus for machine in pool.machines}
    nodes = cluster.nodes(f"{POOL_LABEL}={pool.name}")
    return sum(sizes[node["metadata"]["labels"]["node.kubernetes.io/instance-type"]] for node in nodes)


def test_a_burst_beside_a_small_node_stays_within_the_bound(gpupool: CommandLine, cluster: Any) -> None:
    """With a number of nodes, 14 pods at once started 6 nodes of 3 (kubernetes-sigs/karpenter#2915)."""
    gpupool.write(MIXED)
    gpupool.up()
    pools = gpupool.plan.pools
    for pool in pools:
        make_pods(cluster, pool, ["nvidia.com/gpu"])
    for pool in pools:
        cluster.wait(f"a pod of {pool.name} runs", lambda p=pool: running_on(cluster, p, 1))
    with cluster.at_once():
        for pool in pools:
            make_pods(cluster, pool, ["nvidia.com/gpu"] * (pool.slices_max["nvidia.com/gpu"] + 2), 1)
    for pool in pools:
        cluster.wait(f"a pod of {pool.name} is refused", lambda p=pool: refusal(cluster, p))

    def kept() -> bool:
        assert all(gpus(cluster, pool) <= 12 for pool in pools), cluster.summary()
        return all(within_bound(cluster, pool) for pool in pools)

    cluster.stays("no pool beyond its maximum", kept, 10.0)
    for pool in pools:
        assert gpus(cluster, pool) > 8, "the bound is used"
