"""Every pool of the shipped local environment holds exactly what the plan says, and is bounded.

Karpenter, the scheduler and the simulated operator decide; the plan only predicts.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.environment.plan.model import Pool
from gpupool.environment.plan.resolve import read_plan
from tests.cluster.pools.command_line import SHIPPED, CommandLine
from tests.cluster.pools.pods import make_pods, nodes_of, refusal, running_on, within_bound

POOLS = read_plan(str(SHIPPED)).pools


def wanted(pool: Pool, nodes: int) -> list[str]:
    """One resource name per pod that fits on so many nodes."""
    return [name for name, count in pool.slices_per_node.items() for _ in range(count * nodes)]


def full_nodes(pool: Pool) -> int:
    """Nodes of the pool when all of them are the largest machine."""
    return pool.gpus_max // pool.gpus_per_node


def test_pools_hold_what_the_plan_says(gpupool: CommandLine, cluster: Any) -> None:
    """As many pods as fit on N nodes start N nodes; one more starts one more; beyond max it stays Pending."""
    gpupool.up()
    made: dict[str, int] = {}
    with cluster.at_once():
        for pool in POOLS:
            resources = wanted(pool, full_nodes(pool) - 1)
            make_pods(cluster, pool, resources)
            made[pool.name] = len(resources)
    for pool in POOLS:
        count = made[pool.name]
        cluster.wait(f"{count} pods of {pool.name} run", lambda p=pool, c=count: running_on(cluster, p, c))
    for pool in POOLS:
        # A busy Karpenter may start a node too many (docs/known-limits.md); it goes as it is empty.
        cluster.wait(
            f"{pool.name} has {full_nodes(pool) - 1} nodes",
            lambda p=pool: len(nodes_of(cluster, p)) == full_nodes(p) - 1,
        )

    for pool in POOLS:
        make_pods(cluster, pool, wanted(pool, 1)[:1], made[pool.name])
        made[pool.name] += 1
    for pool in POOLS:
        count = made[pool.name]
        cluster.wait(f"one more pod of {pool.name} runs", lambda p=pool, c=count: running_on(cluster, p, c))
        assert len(nodes_of(cluster, pool)) == full_nodes(pool), cluster.summary()

    for pool in POOLS:
        # Machines of several sizes: the one more node may be a small one, so ask for a full large one too.
        rest = [*wanted(pool, 1)[1:], next(iter(pool.slices_per_node))]
        make_pods(cluster, pool, rest, made[pool.name])
    for pool in POOLS:
        cluster.wait(f"a pod of {pool.name} is refused", lambda p=pool: refusal(cluster, p))
    cluster.stays(
        "no pool beyond its maximum",
        lambda: all(within_bound(cluster, pool) for pool in POOLS),
        3.0,
    )


@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: pool.name)
def test_nodes_offer_what_the_plan_says(pool: Pool) -> None:
    """The plan's figures of the shipped file, so that a change of them is noticed here first."""
    expected = {
        "notebooks": {"nvidia.com/gpu": 8},
        "research-a100": {"nvidia.com/gpu": 24},
        "research-h100": {"nvidia.com/gpu": 2},
        "inference-mig": {"nvidia.com/mig-3g.40gb": 8, "nvidia.com/mig-2g.20gb": 16},
        "batch-a10g": {"nvidia.com/gpu": 16},
        "training": {"nvidia.com/gpu": 4},
        "training-a100": {"nvidia.com/gpu": 8},
    }
    assert dict(pool.slices_per_node) == expected[pool.name]
