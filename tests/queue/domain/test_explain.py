"""Why a job waits and when it may start, as the round itself would say."""

from __future__ import annotations

from dataclasses import replace

from gpupool.queue.domain.explain import ExplainedJob, Explanation, View, explain, outlook
from gpupool.queue.domain.lower_bound import Line
from gpupool.queue.domain.projection import Projection
from gpupool.queue.domain.state import Holdings, Queued
from gpupool.queue.records import MICRO, WaitReason
from gpupool.queue.store.snapshot import FOREVER_S
from tests.queue.domain.simulated import GPU, Cluster, offer, pool, small, supply, tenant
from tests.queue.lanes import in_lanes


def explained_in(cluster: Cluster, job: Queued) -> Explanation:
    return explain(ExplainedJob(View(cluster.snapshot(), cluster.supply), job))


def test_a_job_is_explained_by_the_terms_that_order_it() -> None:
    cluster, made = small()
    of = made.pools["pool"]
    for _ in range(2):
        cluster.add("a", (offer(of, 4),), 3600)
    cluster.round()
    first, second = (cluster.add("b", (offer(of, 4),), 600) for _ in range(2))
    queued = {job.job: job for job in cluster.queued}
    explained = explained_in(cluster, queued[first])
    assert explained.waiting is not None
    assert explained.waiting.reason is WaitReason.CAPACITY
    assert "needs 4 nvidia.com/gpu of pool; 0 of 8 are free" in explained.waiting.detail
    assert explained.projection == Projection(3600.0, exact=True)
    behind = explained_in(cluster, queued[second])
    assert behind.waiting is not None
    assert behind.waiting.reason is WaitReason.QUEUED
    assert behind.ahead == 1
    assert set(behind.terms) == {
        "ordering", "reserved", "borrowing", "guaranteed_share", "level", "fair_clock", "reserved_for",
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
    first, second = (explained_in(cluster, job) for job in cluster.queued)
    assert first.projection == Projection(cluster.now, exact=True)
    assert second.waiting is not None
    assert second.waiting.reason is WaitReason.BUDGET
    assert second.projection is None  # what the two others may cost is all that there is


def test_the_end_of_pods_that_are_not_the_queues_is_not_projected() -> None:
    """As the snapshot has them they end in a year that no calendar has: pages could not be shown."""
    of = pool(nodes=1, slots=4)
    cluster = Cluster(supply([of], [tenant("a", [of])]))
    cluster.add("a", (offer(of, 4),), 3600)
    cluster.round()
    (held,) = cluster.snapshot().held
    pods = held._replace(attempt=0, run_limit_s=FOREVER_S)
    cluster.add("a", (offer(of),), 3600)
    seen = replace(cluster.snapshot(), held=Holdings.of([pods]))
    view = View(seen, cluster.supply)
    assert explain(ExplainedJob(view, cluster.queued[0])).projection is None
    assert [prospect.projection for prospect in outlook(view, 5)] == [None]


def test_a_job_far_behind_waits_for_its_turn_even_if_those_that_are_seen_are_passed() -> None:
    of = pool(nodes=2, slots=4)
    cluster = Cluster(supply([of], [tenant("a", [of], budget_micro=4 * MICRO)]))
    cluster.add("a", (offer(of),), 36_000)
    cluster.add("a", (offer(of),), 3600)
    seen = replace(cluster.snapshot(), lanes=in_lanes(cluster.queued[:1]))
    case = ExplainedJob(View(seen, cluster.supply, per_lane=1), cluster.queued[1])
    far = explain(case, Line(jobs=100))
    assert far.waiting is not None
    assert far.waiting.reason is WaitReason.QUEUED
    assert "100 jobs of a" in far.waiting.detail
    assert far.projection is None
