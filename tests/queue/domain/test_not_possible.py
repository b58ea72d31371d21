"""What can't start whatever ends says so, and not that it waits for a limit or for room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.queue.domain.decide import decide
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import Level, WaitReason
from tests.queue.domain.simulated import GPU, Cluster, offer, pool, supply, tenant

WHOLE, OTHER = pool("whole", nodes=2, slots=4), pool("other", nodes=1, slots=4)


def before(running: int | None = None) -> Supply:
    return supply([WHOLE, OTHER], [tenant("a", [WHOLE, OTHER], running=running), tenant("b", [WHOLE, OTHER])])


def without_tenant(given: Supply) -> Supply:
    return replace(given, tenants={"b": given.tenants["b"]})


def without_pool(given: Supply) -> Supply:
    rule = replace(given.tenants["a"], grants={("other", GPU): 1000})
    return replace(given, pools={"other": OTHER}, tenants={**given.tenants, "a": rule})


def smaller_grant(given: Supply) -> Supply:
    return replace(given, tenants={**given.tenants, "a": tenant("a", [WHOLE, OTHER], granted=4, running=1)})


def fewer_nodes(given: Supply) -> Supply:
    return replace(given, pools={**given.pools, "whole": pool("whole", nodes=1, slots=4)})


def smaller_nodes(given: Supply) -> Supply:
    return replace(given, pools={**given.pools, "whole": pool("whole", nodes=8, slots=3)})


CHANGES = {
    without_tenant: "has no tenant a; add it to `tenants`",
    without_pool: "has no pool whole with nvidia.com/gpu; change gpu_pool_requested",
    smaller_grant: "of whole, and a is granted 4; lower gpu_count, or raise the tenant's `pools`",
    fewer_nodes: "whole has 4 on 1 nodes; lower gpu_count, or raise the pool's `nodes`",
    smaller_nodes: "whole has 24 on 8 nodes",
}


@pytest.mark.parametrize("at_its_limit", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_what_a_change_of_the_file_makes_impossible_says_so(change, at_its_limit) -> None:
    cluster = Cluster(before(running=1))
    if at_its_limit:
        cluster.add("a", (offer(WHOLE),), 36_000)
        cluster.round()
    job = cluster.add("a", (offer(WHOLE, 8),), 600)
    cluster.now = 3600.0
    cluster.supply = change(cluster.supply)
    decision = decide(cluster.snapshot(), cluster.supply)
    assert decision.waits[job].reason is WaitReason.UNSCHEDULABLE
    assert CHANGES[change] in decision.waits[job].detail
    assert not decision.reservations


def test_a_job_with_another_offer_waits_for_that() -> None:
    cluster = Cluster(before())
    cluster.add("b", (offer(OTHER, 4),), 36_000)
    cluster.round()
    job = cluster.add("a", (offer(WHOLE, 4), offer(OTHER, 4)), 600, Level.LOW)
    cluster.supply = without_pool(cluster.supply)
    waiting = cluster.round().waits[job]
    assert waiting.reason is WaitReason.CAPACITY
    assert "needs 4 nvidia.com/gpu of other" in waiting.detail
