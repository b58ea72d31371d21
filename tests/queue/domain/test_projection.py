"""What a projection says is so in a simulation of the whole queue, however little of it was seen."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from math import inf

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from gpupool.queue.domain.explain import Counts, ExplainedJob, Explanation, View, explain, outlook
from gpupool.queue.domain.order import Rival
from gpupool.queue.domain.projection import Projection
from gpupool.queue.domain.state import Queued
from gpupool.queue.records import Level
from tests.queue.domain.simulated import GPU, RESERVED, Cluster, offer, pool, supply, tenant
from tests.queue.lanes import in_lanes

MINUTE = 60
FIRST = 20
"""Jobs of a lane that a snapshot holds, as the API's."""


def explained(cluster: Cluster, job: Queued, per_lane: int) -> Explanation:
    """As the API does: a snapshot with the first jobs of lanes, and the rest is counted."""
    case = ExplainedJob(seen(cluster, per_lane), job)
    line = None
    if case.far and case.places:
        line = case.places.line([other for other in lane_of(cluster, job) if before(other, job)])
    return explain(case, line, counts(cluster, case.to_count))


def seen(cluster: Cluster, per_lane: int) -> View:
    lanes = defaultdict[tuple[str, str], list[Queued]](list)
    for job in cluster.queued:
        lanes[job.tenant, job.lane].append(job)
    first = tuple(job for jobs in lanes.values() for job in jobs[:per_lane])
    return View(replace(cluster.snapshot(), lanes=in_lanes(first)), cluster.supply, per_lane)


def lane_of(cluster: Cluster, job: Queued) -> list[Queued]:
    return [other for other in cluster.queued if (other.tenant, other.lane) == (job.tenant, job.lane)]


def before(job: Queued, other: Queued) -> bool:
    return (job.enqueued, job.job) < (other.enqueued, other.job)


def counts(cluster: Cluster, rivals: list[Rival]) -> Counts:
    def number(rival: Rival, point: tuple[float, str]) -> int:
        return sum(
            (job.tenant, job.lane) == rival.lane and (job.enqueued, job.job) < point for job in cluster.queued
        )

    return {rival.lane: (number(rival, rival.sure), number(rival, rival.like)) for rival in rivals}


def real_starts(cluster: Cluster) -> dict[str, float]:
    """When each job first starts, with a round at every moment at which a round may decide otherwise."""
    starts: dict[str, float] = {}
    for _ in range(3000):
        cluster.queued.sort(key=lambda job: (job.enqueued, job.job))
        reserved, decision = cluster.reservations, cluster.round()
        for start in decision.starts:
            starts.setdefault(start.job, cluster.now)
        rules = cluster.supply.rules
        moments = [cluster.ends(held) for held in cluster.held.values()]
        moments += [held.since + MINUTE for held in cluster.held.values()]  # it may be preempted from then
        moments += [job.enqueued + rules.reserve_after_s for job in cluster.queued]
        changed = decision.starts or decision.preempts or cluster.reservations != reserved
        moments += [node.until for of in cluster.supply.pools.values() for node in of.ending]
        later = [moment for moment in moments if moment > cluster.now]
        if not cluster.queued or (not changed and min(later, default=inf) == inf):
            break
        cluster.now = cluster.now if changed else min(later)
        for held in list(cluster.held.values()):
            if cluster.ends(held) <= cluster.now:
                cluster._end(held)
    return starts


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """A cluster with running jobs, and lanes of jobs that wait."""
    pools = [
        pool(
            name,
            nodes=draw(st.integers(1, 3)) + len(reserved),
            slots=draw(st.sampled_from([1, 2, 4])),
            spot=draw(st.integers(0, 1)) if draw(st.booleans()) else 0,
            share=0.5,
            reserved=reserved,
        )
        for name in ("one", "two")[: draw(st.integers(1, 2))]
        for reserved in [draw(RESERVED) if draw(st.booleans()) else ()]
    ]
    names = ("a", "b")[: draw(st.integers(1, 2))]
    rules = [
        tenant(
            name,
            pools,
            weight=draw(st.sampled_from([1.0, 2.0])),
            running=draw(st.none() | st.integers(1, 4)),
            granted=draw(st.integers(1, 8)),
            guaranteed=draw(st.integers(0, 2)),
            budget_micro=draw(st.none() | st.integers(100_000, 5_000_000)),
        )
        for name in names
    ]
    ordering = draw(st.sampled_from(["fifo", "priority", "fair-share"]))
    cluster = Cluster(
        supply(pools, rules, ordering=ordering, reserve_after_s=draw(st.sampled_from([120, 600, 10**9])))
    )

    def add(most: int) -> None:
        where = draw(st.lists(st.sampled_from(pools), min_size=1, max_size=2, unique_by=lambda of: of.name))
        size = min(of.nodes[0].slots[GPU] for of in where)
        offers = tuple(offer(of, draw(st.integers(1, size))) for of in where)
        flags = {"preemptible": draw(st.booleans()), "preempts": draw(st.sampled_from([False] * 5 + [True]))}
        name, level = draw(st.sampled_from(names)), draw(st.sampled_from(list(Level)[:3]))
        own = draw(st.none() | st.integers(50_000, 500_000))
        for _ in range(draw(st.integers(1, most))):
            seconds = MINUTE * draw(st.sampled_from([1, 2, 5, 5, 5, 10]))
            cluster.add(name, offers, seconds, level, budget=own, **flags)

    for _ in range(draw(st.integers(0, 3))):
        add(2)
    cluster.round()
    for _ in range(draw(st.integers(1, 4))):
        cluster.now += MINUTE * draw(st.integers(0, 2))
        add(9)
    for held in list(cluster.held.values()):
        if cluster.ends(held) <= cluster.now:
            cluster._end(held)
    return cluster


@given(cluster=clusters(), per_lane=st.sampled_from([1, 2, 4, 100]))
def test_what_is_projected_is_so(cluster: Cluster, per_lane: int) -> None:
    cluster.queued.sort(key=lambda job: (job.enqueued, job.job))
    explanations = [explained(cluster, job, per_lane) for job in cluster.queued]
    shown = outlook(seen(cluster, per_lane), 100)
    starts = real_starts(cluster)
    for prospect in (*explanations, *shown):
        job, projection = prospect.job, prospect.projection
        real = starts.get(job.job, float("inf"))
        event("none" if projection is None else "start" if projection.exact else "after")
        if projection is not None and projection.exact:
            assert real == projection.at, (job, projection, cluster)
        elif projection is not None:
            assert real >= projection.at - 1e-6, (job, projection)
    for explanation in explanations:
        if explanation.waiting is None:
            assert starts[explanation.job.job] == explanation.projection.at


def one_lane(jobs: int, running: int = 8, seconds: int = 3600) -> Cluster:
    of = pool(nodes=2, slots=4)
    cluster = Cluster(supply([of], [tenant("a", [of], running=running)]))
    for _ in range(jobs):
        cluster.add("a", (offer(of),), seconds)
    return cluster


@pytest.mark.parametrize("position", [0, 7, 8, 19, 20, 21, 37, 500, 4_999])
def test_each_of_many_like_jobs_has_a_time_of_its_own(position: int) -> None:
    cluster = one_lane(5_000)
    explanation = explained(cluster, cluster.queued[position], FIRST)
    start = position // 8 * 3600.0
    assert explanation.ahead == position
    assert explanation.projection is not None
    if position <= FIRST:
        assert explanation.projection == Projection(start, exact=True)
    else:
        assert not explanation.projection.exact
        assert start - 3600 <= explanation.projection.at <= start
        assert explanation.waiting is not None
        assert f"{position} jobs of a" in explanation.waiting.detail


def test_one_that_would_be_submitted_is_behind_all() -> None:
    cluster = one_lane(100, running=1)
    job = replace(cluster.queued[-1], job="new")
    explanation = explained(cluster, job, FIRST)
    assert explanation.ahead == 100
    assert explanation.projection == Projection(100 * 3600.0, exact=False)


def test_what_runs_keeps_its_place_until_it_ends() -> None:
    cluster = one_lane(8, seconds=7200)
    cluster.round()
    for _ in range(100):
        cluster.add("a", cluster.waiting_jobs["j00001"].offers, 3600)
    explanation = explained(cluster, cluster.queued[-1], FIRST)
    assert explanation.projection is not None
    assert 7200 + 11 * 3600 <= explanation.projection.at <= 7200 + 12 * 3600


def test_those_before_it_in_other_lanes_are_counted() -> None:
    of = pool(nodes=2, slots=4)
    other = pool("other", nodes=2, slots=4)
    cluster = Cluster(supply([of, other], [tenant("a", [of, other])], ordering="priority"))
    for level, jobs in ((Level.HIGH, 50), (Level.LOW, 30)):
        for _ in range(jobs):
            cluster.add("a", (offer(of),), 3600, level)
    for _ in range(70):  # of another pool
        cluster.add("a", (offer(other),), 3600, Level.HIGH)
    high, low = cluster.queued[3], cluster.queued[50 + 7]
    assert explained(cluster, high, FIRST).ahead == 3
    assert explained(cluster, low, FIRST).ahead == 57


def test_two_tenants_take_turns() -> None:
    of = pool(nodes=1, slots=1)
    cluster = Cluster(supply([of], [tenant("a", [of]), tenant("b", [of])], ordering="fair-share"))
    for name in ("a", "b"):
        for _ in range(200):
            cluster.add(name, (offer(of),), 3600)
    for index in (0, 50, 199):
        assert abs(explained(cluster, cluster.queued[index], FIRST).ahead - 2 * index) <= 1


def test_a_list_says_where_it_does_not_know_all() -> None:
    cluster = one_lane(50)
    for _ in range(3):
        cluster.add("a", (offer(cluster.supply.pools["pool"]),), 3600, preemptible=True)
    prospects = outlook(seen(cluster, FIRST), 40)
    assert [prospect.more_ahead for prospect in prospects] == [False] * FIRST + [True] * 3
    assert prospects[-1].projection is not None
    assert not prospects[-1].projection.exact
