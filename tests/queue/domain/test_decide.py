"""The decision, by properties: fair, bounded waits, no limit exceeded, nothing shared that may not be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.queue.domain.decide import decide
from gpupool.queue.domain.explain import ExplainedJob, View, explain
from gpupool.queue.records import MICRO, Level, Waiting, WaitReason
from tests.examples import examples
from tests.queue.domain.simulated import RESERVED, Cluster, offer, pool, small, supply, tenant

SECONDS = st.integers(30, 7200)


@given(
    st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=2, max_size=4),
    st.lists(st.tuples(st.integers(1, 4), SECONDS), min_size=4, max_size=8),
)
def test_tenants_that_always_have_work_get_shares_within_one_job_each(weights, kinds) -> None:
    """The bound of start-time fair queueing: served / weight differs by at most one largest job of each."""
    of = pool(nodes=2, slots=4)
    rules = [tenant(f"t{n}", [of], weight) for n, weight in enumerate(weights)]
    cluster = Cluster(supply([of], rules, reserve_after_s=10**12, aging_s=10**12))
    largest = [0.0] * len(weights)
    for number in range(60):
        for n in range(len(weights)):
            units, seconds = kinds[(number + n) % len(kinds)] if n % 2 else kinds[number % len(kinds)]
            units = 1  # one size: capacity never passes a job over, so that only the clocks decide
            cluster.add(f"t{n}", (offer(of, units),), seconds)
            largest[n] = max(largest[n], units * MICRO * seconds / weights[n])
    for _ in range(40):
        cluster.round()
        backlogged = {job.tenant for job in cluster.queued}
        if len(backlogged) < len(weights):
            break
        clocks = [cluster.clocks.get((of.name, f"t{n}"), 0) for n in range(len(weights))]
        for a in range(len(weights)):
            for b in range(a):
                assert abs(clocks[a] - clocks[b]) <= largest[a] + largest[b]
        cluster.advance()


@given(
    st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=2, max_size=4),
    st.lists(st.integers(1, 20), min_size=5, max_size=9),
    st.integers(0, 7),
)
@examples("queue", 30)
def test_shares_follow_the_time_that_jobs_take(weights, durations, leads) -> None:
    """Not the time that they may take. Each tenant comes later than the one before, with jobs that take a
    small part of their timeout, and a new leader knows nothing of earlier rounds. From then on served /
    weight differs by at most twice the longest job of each, as far as it is charged beforehand."""
    timeout, jobs = 600, 400
    of = pool(nodes=2, slots=8)
    rules = [tenant(f"t{n}", [of], weight) for n, weight in enumerate(weights)]
    cluster = Cluster(supply([of], rules, reserve_after_s=10**12, aging_s=10**12))
    before: list[Counter[str]] = []
    for step in range(300):
        if step % 20 == 0 and len(before) < len(weights):
            before.append(Counter(cluster.served))
            for number in range(jobs):
                takes = durations[(number + len(before)) % len(durations)]
                cluster.add(f"t{len(before) - 1}", (offer(of),), timeout, takes=takes)
        if leads and step % (leads * 10) == 0:
            cluster.floors = {}
        cluster.round()
        if len({job.tenant for job in cluster.queued}) < len(before):
            break
        for a in range(len(before)):
            for b in range(a):
                had = [(cluster.served[f"t{n}"] - before[a][f"t{n}"]) / weights[n] for n in (a, b)]
                assert abs(had[0] - had[1]) <= 2 * MICRO * timeout * (1 / weights[a] + 1 / weights[b])
        cluster.advance()


@given(
    st.integers(1, 4),
    st.integers(600, 3600),
    st.integers(5, 30),
    st.sampled_from(["priority", "fair-share"]),
)
def test_nobody_waits_beyond_the_printed_bound_of_ageing(level_gap, aging, flood, ordering) -> None:
    """After (top - level) x aging no later job of a higher level goes before it. With fair-share the terms on
    either side of the level are not bounded by ageing: tenants below their guaranteed share (here: none) go
    before it, and tenants with a smaller clock (the flood's grows with each job)."""
    of = pool(nodes=1, slots=1)
    rules = [tenant("a", [of]), tenant("b", [of])]
    cluster = Cluster(supply([of], rules, ordering=ordering, aging_s=aging, reserve_after_s=10**12))
    cluster.add("b", (offer(of),), 60, Level.HIGH)
    low = cluster.add("a", (offer(of),), 60, Level.LOW)
    bound = (Level.CRITICAL - Level.LOW) * aging
    while low not in cluster.started and cluster.now < bound + 10 * flood * 60:
        for _ in range(level_gap):
            cluster.add("b", (offer(of),), 60, Level.CRITICAL)
        cluster.round()
        cluster.advance()
    # Then only what was already waiting at the top level before may go first: one job runs at a time.
    queued_before = level_gap * (bound // 60 + 2)
    assert low in cluster.started
    assert cluster.started[low] <= bound + queued_before * 60


@st.composite
def loads(draw: st.DrawFn) -> Cluster:
    """A cluster of three pools, of whole GPUs, slices, and spot and reserved ones, with jobs of all kinds."""
    whole, sliced = pool("whole", 3, 4), pool("sliced", 3, 4, whole=False)
    reserved = draw(RESERVED)
    spotty = pool("spotty", 4 + len(reserved), 2, spot=2, share=0.5, reserved=reserved)
    pools = [whole, sliced, spotty]
    rules = [
        tenant(
            f"t{n}",
            pools,
            draw(st.sampled_from([0.5, 1.0, 2.0])),
            draw(st.none() | st.integers(1, 5)),
            draw(st.integers(4, 12)),
            draw(st.integers(0, 6)),
            draw(st.none() | st.integers(1, 40).map(lambda usd: usd * MICRO)),
        )
        for n in range(3)
    ]
    ordering = draw(st.sampled_from(["fifo", "priority", "fair-share"]))
    cluster = Cluster(supply(pools, rules, ordering=ordering, aging_s=600.0, reserve_after_s=300.0))
    for _ in range(draw(st.integers(5, 40))):
        of = draw(st.sampled_from(pools))
        alone = of is sliced and draw(st.booleans())
        units = 1 if of is sliced else draw(st.sampled_from([1, 2, 4, 8] if of is whole else [1, 2]))
        seconds = draw(SECONDS)
        cluster.add(
            f"t{draw(st.integers(0, 2))}",
            (offer(of, units, alone),),
            seconds,
            draw(st.sampled_from(list(Level))),
            takes=draw(st.integers(1, seconds)),
            preemptible=draw(st.booleans()),
            preempts=draw(st.booleans()),
            budget=draw(st.none() | st.integers(1, 5).map(lambda usd: usd * MICRO)),
        )
        if draw(st.booleans()):
            cluster.round()
            cluster.advance()
    return cluster


@examples("queue", 40)
@given(loads())
def test_limits_budgets_and_slots_are_never_exceeded(cluster: Cluster) -> None:
    """`Cluster.check` counts again after each round; and the decision says of each job why it waits."""
    for _ in range(100):
        decision = cluster.round()
        heads = {}
        for job in cluster.queued:
            heads.setdefault((job.tenant, job.lane), job.job)
        preempted = {preempt.job for preempt in decision.preempts}
        assert {job for job in heads.values() if job not in preempted} <= set(decision.waits) | preempted
        if not cluster.advance():
            break


@examples("queue", 40)
@given(loads())
def test_heads_that_need_no_place_in_the_order_change_nothing(cluster: Cluster) -> None:
    """The same decision, as if each head had its place."""
    for _ in range(100):
        snapshot = cluster.snapshot()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gpupool.queue.domain.decide._stays", lambda *_: False)
            whole = decide(snapshot, cluster.supply)
        decision = cluster.round()
        assert decision.starts == whole.starts
        assert decision.preempts == whole.preempts
        assert decision.waits.keys() == whole.waits.keys()
        assert decision.reservations == whole.reservations
        if not cluster.advance():
            break


def test_each_job_that_is_not_possible_is_said_not_to_be() -> None:
    """Not that others with the same request go first: those before it never will."""
    of = pool(nodes=2, slots=8)
    cluster = Cluster(supply([of], [tenant("a", [of], granted=4)]))
    cluster.add("a", (offer(of),), 600)
    impossible = [cluster.add("a", (offer(of, 8),), 600) for _ in range(3)]
    decision = cluster.round()
    assert {decision.waits[job].reason for job in impossible} == {WaitReason.UNSCHEDULABLE}


def test_a_start_may_open_the_other_capacity_type_to_a_later_job() -> None:
    of = pool(nodes=3, slots=4, spot=2, share=0.45)
    cluster = Cluster(supply([of], [tenant("a", [of])], ordering="priority"))
    for preemptible in (False, False, False, True, True, True):
        cluster.add("a", (offer(of),), 600, preemptible=preemptible)
        cluster.round()
    assert Counter(held.capacity_type for held in cluster.held.values()) == {"spot": 3, "on-demand": 3}
    later = cluster.add("a", (offer(of, 2),), 600, preemptible=True)  # 3 of 8 on spot is nearer than 5 of 8
    first = cluster.add("a", (offer(of),), 600, Level.HIGH)
    cluster.round()
    assert cluster.held[first].capacity_type == "on-demand"
    assert cluster.held[later].capacity_type == "spot"  # 5 of 9 is nearer than 3 of 9


@examples("queue", 40)
@given(loads())
def test_exclusive_and_shared_never_mix_and_gangs_start_whole(cluster: Cluster) -> None:
    for _ in range(100):
        cluster.round()
        nodes: dict[tuple[str, int], list[int]] = {}
        for held in cluster.held.values():
            wanted = cluster.waiting_jobs[held.job].offers[0].units
            assert sum(units for _, units in held.placement) == wanted
            for node, units in held.placement:
                nodes.setdefault((held.pool, node), []).append(units)
        for (name, _), taken in nodes.items():
            if name == "sliced" and 4 in taken:
                assert taken == [4]
        if not cluster.advance():
            break


@examples("queue", 40)
@given(loads())
def test_a_job_is_preempted_only_by_a_higher_level_and_never_in_turns(cluster: Cluster) -> None:
    by: dict[str, set[str]] = {}
    for _ in range(100):
        decision = cluster.round()
        for preempt in decision.preempts:
            victim = cluster.waiting_jobs[preempt.job]
            winner = cluster.waiting_jobs[preempt.beneficiary]
            assert victim.level < winner.level
            assert victim.preemptible
            assert winner.preempts
            by.setdefault(preempt.job, set()).add(preempt.beneficiary)
            assert preempt.job not in by.get(preempt.beneficiary, set())
        if not cluster.advance():
            break


@examples("queue", 40)
@given(loads())
def test_what_is_possible_at_all_ends(cluster: Cluster) -> None:
    """With nothing new coming, and nothing running in the end, only budgets keep a job from starting, grants
    that are too small for it, or earlier ones that it comes after."""
    cluster.drain(200)
    assert not cluster.held
    assert not cluster.reservations
    stuck = set()
    for job in sorted(cluster.queued, key=lambda job: (job.enqueued, job.job)):
        lane = (job.tenant, job.lane)
        waiting = explain(ExplainedJob(View(cluster.snapshot(), cluster.supply), job)).waiting
        assert waiting is not None
        reasons = {WaitReason.UNSCHEDULABLE, WaitReason.BUDGET} | (
            {WaitReason.QUEUED} if lane in stuck else set()
        )
        assert waiting.reason in reasons, (job, waiting)
        if waiting.reason is WaitReason.UNSCHEDULABLE:
            stuck.add(lane)


def test_what_is_written_of_a_job_that_is_no_longer_reached_is_replaced() -> None:
    of = pool(nodes=1, slots=1)
    cluster = Cluster(supply([of], [tenant("a", [of]), tenant("b", [of])]))
    cluster.add("b", (offer(of),))
    cluster.round()
    first, second = (cluster.add("a", (offer(of),)) for _ in range(2))
    budget = Waiting(WaitReason.BUDGET, "spent")
    waits = decide(replace(cluster.snapshot(), waits={second: budget}), cluster.supply).waits
    assert waits[first].reason is WaitReason.CAPACITY
    assert waits[second].reason is WaitReason.QUEUED


def test_a_job_that_waits_for_nodes_on_demand_keeps_none_that_may_be_on_spot() -> None:
    of = pool(nodes=2, slots=1, spot=1, share=0.5)
    cluster = Cluster(supply([of], [tenant("a", [of])]))
    cluster.add("a", (offer(of),))
    cluster.round()
    first, second = (cluster.add("a", (offer(of),), preemptible=True) for _ in range(2))
    cluster.queued[0] = replace(cluster.queued[0], on_demand_only=True)
    waits = cluster.round().waits
    assert waits[first].reason is WaitReason.SPOT_SHARE
    assert cluster.held[second].capacity_type == "spot"


def test_a_large_job_gets_a_reservation_and_is_passed_by_short_jobs_only() -> None:
    cluster, made = small(reserve_after_s=600.0)
    of = made.pools["pool"]
    for _ in range(2):
        cluster.add("a", (offer(of, 3),), 3600)
    cluster.round()
    large = cluster.add("b", (offer(of, 4),), 3600)
    cluster.now = 700.0
    assert cluster.round().reservations == {"pool": large, "pool/b": large}
    # One of the two nodes is the reserved job's; the other may be used by anybody.
    long, second = (cluster.add("a", (offer(of, 1),), 36_000) for _ in range(2))
    decision = cluster.round()
    assert long in cluster.started
    assert decision.waits[second].reason is WaitReason.RESERVATION
    assert large not in decision.waits[second].detail  # it may be of another tenant
    assert "waited for 12 minutes" in decision.waits[second].detail
    short = cluster.add("b", (offer(of, 1),), 600)
    cluster.round()
    assert short in cluster.started
    cluster.now = 3600.0
    while large not in cluster.started and cluster.advance():
        cluster.round()
    assert cluster.started[large] == 3600.0


def test_a_critical_job_preempts_the_cheapest_victims_and_gets_their_place() -> None:
    cluster, made = small()
    of = made.pools["pool"]
    old = [cluster.add("a", (offer(of, 4),), 7200, preemptible=True)]
    cluster.round()
    cluster.now = 1000.0
    young = cluster.add("a", (offer(of, 4),), 7200, preemptible=True)
    cluster.round()
    cluster.now = 2000.0
    critical = cluster.add("b", (offer(of, 4),), 600, Level.CRITICAL, preempts=True)
    decision = cluster.round()
    assert [preempt.job for preempt in decision.preempts] == [young]
    cluster.round()
    assert critical in cluster.started
    assert cluster.preempted == {young: 1}
    assert old[0] in cluster.held


def test_the_spot_share_is_kept() -> None:
    of = pool(nodes=10, slots=4, spot=7, share=0.7)
    cluster = Cluster(supply([of], [tenant("a", [of])]))
    for _ in range(40):
        cluster.add("a", (offer(of),), 600, preemptible=True)
    cluster.round()
    spot = sum(held.gpu_micro for held in cluster.held.values() if held.capacity_type == "spot")
    total = sum(held.gpu_micro for held in cluster.held.values())
    assert abs(spot / total - 0.7) <= 0.02


def test_while_an_exclusive_job_runs_no_shared_job_is_started_and_the_other_way_round() -> None:
    of = pool(nodes=1, slots=8, whole=False)
    cluster = Cluster(supply([of], [tenant("a", [of]), tenant("b", [of])]))
    exclusive = cluster.add("a", (offer(of, alone=True),), 600)
    cluster.round()
    shared = cluster.add("b", (offer(of),), 600)
    decision = cluster.round()
    assert exclusive in cluster.held
    assert decision.waits[shared].reason is WaitReason.EXCLUSIVE
    cluster.advance()
    cluster.round()
    second = cluster.add("a", (offer(of, alone=True),), 600)
    decision = cluster.round()
    assert shared in cluster.held
    assert decision.waits[second].reason is WaitReason.EXCLUSIVE


def test_an_idle_tenant_does_not_save_up() -> None:
    of = pool(nodes=1, slots=1)
    cluster = Cluster(supply([of], [tenant("a", [of]), tenant("b", [of])], reserve_after_s=10**9))
    for _ in range(20):
        cluster.add("a", (offer(of),), 3600)
    for _ in range(10):
        cluster.round()
        cluster.advance()
    for _ in range(10):
        cluster.add("b", (offer(of),), 3600)
    order = []
    for _ in range(10):
        order += [start.tenant for start in cluster.round().starts]
        cluster.advance()
    assert 4 <= order.count("b") <= 6


def test_preemption_makes_room_where_the_job_may_be() -> None:
    of = pool(nodes=2, slots=1, spot=1, share=0.5)
    cluster = Cluster(supply([of], [tenant("a", [of]), tenant("b", [of])], reserve_after_s=600.0))
    low = {cluster.add("a", (offer(of),), 36_000, preemptible=True) for _ in range(2)}
    cluster.round()
    assert low == cluster.held.keys()
    on_demand = next(job for job, held in cluster.held.items() if held.capacity_type == "on-demand")
    cluster.now = 600.0
    high = cluster.add("b", (offer(of),), level=Level.CRITICAL, preempts=True)
    assert [one.job for one in cluster.round().preempts] == [on_demand]
    cluster.round()
    assert cluster.held[high].capacity_type == "on-demand"
