"""Why a job waits and when it may start, as the round itself would say."""

from __future__ import annotations

from dataclasses import replace

from gpupool.queue.domain.explain import explain, outlook
from gpupool.queue.domain.state import Holdings
from gpupool.queue.records import MICRO, Reason
from gpupool.queue.store.snapshot import FOREVER_S
from tests.queue.domain.simulated import GPU, Cluster, offer, pool, small, supply, tenant


def test_a_job_is_explained_by_the_terms_that_order_it() -> None:
    cluster, made = small()
    of = made.pools["pool"]
    for _ in range(2):
        cluster.add("a", (offer(of, 4),), 3600)
    cluster.round()
    first, second = (cluster.add("b", (offer(of, 4),), 600) for _ in range(2))
    queued = {job.job: job for job in cluster.queued}
    explained = explain(cluster.snapshot(), made, queued[first], 0)
    assert explained.waiting is not None
    assert explained.waiting.reason is Reason.CAPACITY
    assert "4 nvidia.com/gpu of pool needed; 0 of 8 free" in explained.waiting.detail
    assert explained.projected_start == 3600.0
    behind = explain(cluster.snapshot(), made, queued[second], 1)
    assert behind.waiting is not None
    assert behind.waiting.reason is Reason.TURN
    assert behind.ahead == 1
    assert set(behind.terms) == {
        "ordering", "reserved", "guaranteed_share", "level", "fair_clock", "reserved_for",
        "reserved_within",
    }  # fmt: skip
    assert made.pools["pool"].slots(GPU) == 8


def test_a_projection_counts_what_starts_before() -> None:
    of = pool(nodes=2, slots=4)  # 2 USD an hour for a slot
    cluster = Cluster(supply([of], [tenant("a", [of], budget_micro=7_500_000)]))
    cluster.add("a", (offer(of),), 9000)
    cluster.round()
    for _ in range(2):
        cluster.add("a", (offer(of),), 4500)
    first, second = (
        explain(cluster.snapshot(), cluster.supply, job, before) for before, job in enumerate(cluster.queued)
    )
    assert first.projected_start == cluster.now
    assert second.waiting is not None
    assert second.waiting.reason is Reason.BUDGET
    assert second.projected_start is None  # what the two others may cost is all that there is


def test_the_end_of_pods_that_are_not_the_queues_is_not_projected() -> None:
    """As the snapshot has them they end in a year that no calendar has: pages could not be shown."""
    of = pool(nodes=1, slots=4)
    cluster = Cluster(supply([of], [tenant("a", [of])]))
    cluster.add("a", (offer(of, 4),), 3600)
    cluster.round()
    (held,) = cluster.snapshot().held
    pods = replace(held, attempt=0, run_limit_s=FOREVER_S)
    cluster.add("a", (offer(of),), 3600)
    seen = replace(cluster.snapshot(), held=Holdings.of([pods]))
    assert explain(seen, cluster.supply, cluster.queued[0], 0).projected_start is None
    assert [one.projected_start for one in outlook(seen, cluster.supply, 5)] == [None]


def test_a_job_far_behind_waits_for_its_turn_even_if_those_that_are_seen_are_passed() -> None:
    of = pool(nodes=2, slots=4)
    cluster = Cluster(supply([of], [tenant("a", [of], budget_micro=4 * MICRO)]))
    cluster.add("a", (offer(of),), 36_000)
    cluster.add("a", (offer(of),), 3600)
    far = explain(cluster.snapshot(), cluster.supply, cluster.queued[1], 100)
    assert far.waiting is not None
    assert far.waiting.reason is Reason.TURN
    assert "100 jobs of a" in far.waiting.detail
    assert far.projected_start is None
