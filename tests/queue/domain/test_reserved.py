"""Reserved nodes are filled first, cost nothing more, and have no job that outlasts them."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpupool.queue.domain.supply import DRAIN_S, supply_of
from gpupool.queue.records import WaitReason
from tests.environment.plan.test_reserved import environment
from tests.environment_files import plan_of
from tests.examples import examples
from tests.queue.domain.simulated import Cluster, offer, pool, supply, tenant


def _cluster(**settings: Any) -> Cluster:
    of = pool(slots=1, **settings)
    return Cluster(supply([of], [tenant("a", [of], budget_micro=10_000_000)]))


def _types(cluster: Cluster, jobs: list[str]) -> list[str]:
    return [cluster.held[job].capacity_type for job in jobs if job in cluster.held]


def test_reserved_nodes_are_filled_first_and_cost_nothing_more() -> None:
    cluster = _cluster(nodes=4, spot=1, share=0.5, reserved=(inf, inf))
    of = offer(cluster.supply.pools["pool"])
    jobs = [cluster.add("a", (of,), preemptible=True) for _ in range(4)]
    cluster.round()
    assert _types(cluster, jobs) == ["reserved", "reserved", "spot", "on-demand"]
    assert [cluster.held[job].hold_micro > 0 for job in jobs] == [False, False, True, True]


def test_a_budget_that_is_spent_stops_no_job_on_what_is_paid_already() -> None:
    of = pool(slots=1, nodes=2, reserved=(inf,))
    cluster = Cluster(supply([of], [tenant("a", [of], budget_micro=1)]))
    jobs = [cluster.add("a", (offer(of),)) for _ in range(2)]
    decision = cluster.round()
    assert _types(cluster, jobs) == ["reserved"]
    assert decision.waits[jobs[1]].reason is WaitReason.BUDGET


def test_a_job_that_would_outlast_the_reservation_waits_and_is_told_why() -> None:
    cluster = _cluster(nodes=2, reserved=(1000.0, inf))
    of = offer(cluster.supply.pools["pool"])
    long = cluster.add("a", (of,), 1001)
    waiting = cluster.round().waits[long]
    assert (waiting.reason, "lower timeout_seconds" in waiting.detail) == (WaitReason.CAPACITY, True)
    short = cluster.add("a", (of,), 1000)
    cluster.queued.reverse()
    cluster.round()
    assert short in cluster.held
    # Once it is over it holds nothing up, and has no place any more.
    cluster.advance()
    cluster.now = 2000.0
    cluster.round()
    assert cluster.held[long].placement == ((1, 1),)


@examples("queue", 200)
@given(
    ends=st.lists(st.one_of(st.just(inf), st.floats(0, 5000)), max_size=3),
    jobs=st.lists(st.tuples(st.integers(1, 4000), st.booleans()), max_size=8),
    more=st.integers(0, 2),
    spot=st.integers(0, 1),
)
def test_no_job_is_where_it_would_outlast_the_reservation(
    ends: list[float], jobs: list[tuple[int, bool]], more: int, spot: int
) -> None:
    cluster = _cluster(nodes=len(ends) + more + spot, spot=spot, share=0.5, reserved=tuple(ends))
    of = offer(cluster.supply.pools["pool"]) if cluster.supply.pools["pool"].nodes else None
    for seconds, preemptible in jobs if of else ():
        cluster.add("a", (of,), seconds, preemptible=preemptible)
    cluster.round()
    for held in cluster.held.values():
        node = cluster.supply.pools["pool"].nodes[held.placement[0][0]]
        assert held.capacity_type == node.capacity_type
        left = [end for end in ends if end > 0]
        assert node.capacity_type != "reserved" or held.ends <= min(left)


def test_a_job_must_end_before_the_nodes_are_drained_even_if_it_starts_late() -> None:
    ending = {"id": "cr-1", "count": 1, "until": "2027-01-31T11:30Z"}
    plan = plan_of(environment([ending, {"tags": {"team": "ml"}, "count": 2}]))
    nodes = supply_of(plan).pools["pool"].nodes
    assert [node.capacity_type for node in nodes] == ["reserved"] * 3 + ["on-demand"]
    end = datetime(2027, 1, 31, 11, 30, tzinfo=UTC).timestamp()
    assert [node.until for node in nodes[:3]] == [inf, inf, end - DRAIN_S - 2 * 900]
