"""What a job waits for may be its own tenant's limit: reservations and preemption hold there as in a pool."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpupool.queue.domain.round import Round
from gpupool.queue.domain.supply import PoolSupply
from gpupool.queue.records import Level, WaitReason
from tests.examples import examples
from tests.queue.domain.simulated import GPU, Cluster, offer, pool, supply, tenant


def shared(granted: int = 8, running: int | None = None, **rules: object) -> tuple[Cluster, PoolSupply]:
    """A pool of 24 GPUs in which tenant a may have some."""
    of = pool(nodes=6, slots=4)
    tenants = [tenant("a", [of], granted=granted, running=running), tenant("b", [of])]
    return Cluster(supply([of], tenants, **{"reserve_after_s": 60.0, **rules})), of


@pytest.mark.parametrize("limit", ["grant", "running"])
def test_later_jobs_of_the_tenant_do_not_pass_one_that_has_waited(limit) -> None:
    cluster, of = shared(granted=8) if limit == "grant" else shared(granted=24, running=4)
    units = 4 if limit == "grant" else 1
    for number in range(8 if limit == "grant" else 4):
        cluster.add("a", (offer(of),), 600, takes=100.0 + 10 * number)
    cluster.round()
    wide = cluster.add("a", (offer(of, units),), 600, Level.LOW)
    while wide not in cluster.started:
        assert cluster.now < 700, "those that come later go on before it"
        for _ in range(3):
            cluster.add("a", (offer(of),), 600, Level.HIGH, takes=50)
        cluster.round()
        cluster.advance()
    assert cluster.reservations.get("pool/a") != wide


def test_what_is_kept_of_a_grant_is_for_no_longer_than_needed_and_against_no_other_tenant() -> None:
    cluster, of = shared()
    running = [cluster.add("a", (offer(of, 3),), seconds) for seconds in (1000, 2000)]
    cluster.round()
    wide = cluster.add("a", (offer(of, 4),), 600)  # when the first ends 5 of 8 are free
    cluster.now = 100.0
    assert cluster.round().reservations == {"pool/a": wide}
    beyond = cluster.add("a", (offer(of),), 36_000, Level.HIGH)
    long = cluster.add("a", (offer(of),), 36_000, Level.HIGH)
    others = [cluster.add("b", (offer(of, 4),), 36_000) for _ in range(2)]
    decision = cluster.round()
    assert {beyond, *others} <= cluster.held.keys()  # the fifth is not the reserved job's
    assert decision.waits[long].reason is WaitReason.RESERVATION
    assert "a's grant on pool is reserved for a job that has waited for 2 min" in decision.waits[long].detail
    short = cluster.add("a", (offer(of),), 800, Level.MEDIUM)
    cluster.round()
    assert short in cluster.held
    assert cluster.advance()
    cluster.round()
    while wide not in cluster.started and cluster.advance():
        cluster.round()
    assert cluster.started[wide] == 1000.0
    assert running[1] in cluster.held


def test_nodes_are_kept_for_nobody_whom_its_own_grant_keeps_waiting() -> None:
    cluster, of = shared(ordering="priority", aging_s=10**9)
    cluster.add("a", (offer(of, 8),), 36_000)
    for _ in range(4):
        cluster.add("b", (offer(of, 4),), 36_000)
    cluster.round()
    wide = cluster.add("a", (offer(of, 4),), 600)
    cluster.now = 3600.0
    assert cluster.round().reservations == {"pool/a": wide}
    cluster._end(cluster.held["j00001"])
    for _ in range(2):
        cluster.add("b", (offer(of, 4),), 36_000, Level.HIGH)
    decision = cluster.round()
    assert decision.waits[wide].reason is WaitReason.CAPACITY
    assert decision.reservations == {"pool/a": wide, "pool": wide}


def test_pods_that_stay_keep_no_reservation_from_a_job_that_can_start() -> None:
    """What waits for pods that are not the queue's may wait for ever."""
    cluster, of = shared()
    cluster.add("a", (offer(of, 3),), 1000)
    cluster.round()
    pods = {"job": "pods of a", "attempt": 0, "run_limit_s": 1 << 40, "placement": ((5, 1),)}
    cluster.held["pods"] = cluster.held["j00001"]._replace(**pods)
    whole, wide = (cluster.add("a", (offer(of, units),), 600) for units in (8, 4))
    cluster.now = 100.0
    seen = cluster.snapshot()
    assert Round.of(seen, cluster.supply).possible.attainable(cluster.waiting_jobs[wide])
    assert not Round.of(seen, cluster.supply).possible.attainable(cluster.waiting_jobs[whole])
    del cluster.durations[whole], cluster.held["pods"]


@pytest.mark.parametrize("limit", ["grant", "running"])
def test_a_job_that_preempts_ends_its_own_tenants_lower_jobs_and_no_more_than_needed(limit) -> None:
    cluster, of = shared(granted=8) if limit == "grant" else shared(granted=24, running=8)
    low = [cluster.add("a", (offer(of),), 7200, preemptible=True) for _ in range(8)]
    foreign = cluster.add("b", (offer(of, 4),), 7200, preemptible=True)
    cluster.round()
    cluster.now = 1000.0
    units, victims = (4, 4) if limit == "grant" else (2, 1)
    high = cluster.add("a", (offer(of, units),), 600, Level.HIGH, preempts=True)
    decision = cluster.round()
    ended = [preempt.job for preempt in decision.preempts]
    assert len(ended) == victims
    assert set(ended) <= set(low)
    assert f"{victims} running job" in decision.waits[high].detail
    cluster.round()
    assert high in cluster.held
    assert foreign in cluster.held


def test_nothing_is_ended_where_it_would_not_help() -> None:
    """The grant could be made free, but no node: others that may not be preempted hold them."""
    cluster, of = shared()
    low = [cluster.add("a", (offer(of),), 7200, preemptible=True) for _ in range(8)]
    cluster.round()
    for _ in range(4):
        cluster.add("b", (offer(of, 4),), 7200)
    cluster.round()
    assert len(cluster.held) == 12
    # One of the tenant's own on each node cannot be made one whole node.
    for number, job in enumerate(low):
        cluster.held[job] = cluster.held[job]._replace(placement=((number % 2, 1),))
    blocking = cluster.held[low[0]]._replace(preemptible=False)
    other = cluster.held[low[1]]._replace(preemptible=False)
    cluster.held |= {low[0]: blocking, low[1]: other}
    cluster.now = 1000.0
    high = cluster.add("a", (offer(of, 4),), 600, Level.CRITICAL, preempts=True)
    decision = cluster.round()
    assert not decision.preempts
    assert decision.waits[high].reason is WaitReason.TENANT_LIMIT


@st.composite
def crowded(draw: st.DrawFn) -> tuple[Cluster, str]:
    """Jobs of two tenants, most of them preemptible, and one that preempts and lacks room, grant, or both."""
    of = pool(nodes=3, slots=4)
    rules = [
        tenant("a", [of], granted=draw(st.integers(4, 8)), running=draw(st.none() | st.integers(2, 6))),
        tenant("b", [of]),
    ]
    cluster = Cluster(supply([of], rules, reserve_after_s=600.0))
    for _ in range(draw(st.integers(6, 20))):
        cluster.now += draw(st.integers(0, 90))
        cluster.add(
            draw(st.sampled_from("ab")),
            (offer(of, draw(st.integers(1, 4))),),
            7200,
            draw(st.sampled_from([Level.LOW, Level.MEDIUM])),
            preemptible=draw(st.sampled_from([True, True, True, False])),
        )
        cluster.round()
    cluster.now += 90
    units = draw(st.sampled_from([1, 2, 3, 4]))
    return cluster, cluster.add("a", (offer(of, units),), 600, Level.HIGH, preempts=True)


@examples("queue", 150)
@given(crowded())
def test_each_victim_is_needed_and_all_of_them_suffice(of: tuple[Cluster, str]) -> None:
    cluster, high = of
    before = dict(cluster.held)
    rule = cluster.supply.tenants["a"]

    def fits(gone: set[str]) -> bool:
        left = [held for job, held in before.items() if job not in gone]
        own = [held for held in left if held.tenant == "a"]
        units = cluster.waiting_jobs[high].offers[0].units
        taken = [
            sum(n for held in left for node, n in held.placement if node == number) for number in range(3)
        ]
        return (
            (rule.running is None or len(own) < rule.running)
            and sum(held.units for held in own) + units <= rule.grants["pool", GPU]
            and any(4 - used >= units for used in taken)
        )

    decision = cluster.round()
    victims = {preempt.job for preempt in decision.preempts}
    if not victims:
        may_go = {job for job, held in before.items() if held.preemptible and cluster.now - held.since >= 60}
        assert high in cluster.started or not fits(may_go)
        return
    assert fits(victims)
    assert not any(fits(victims - {job}) for job in victims)
    cluster.round()
    assert high in cluster.started


@examples("queue", 15)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(60, 900)), min_size=1, max_size=4),
    st.integers(4, 8),
    st.none() | st.integers(2, 5),
    st.integers(0, 4),
)
@example([(2, 90), (1, 120), (3, 300)], 4, 5, 2)
@example([(1, 60), (3, 900), (2, 300)], 5, 4, 3)
def test_how_long_later_jobs_may_pass_one_is_bounded(flood, granted, running, others) -> None:
    """However many jobs of its own tenant and of others come after it. Each of those before it, and each of
    the three bounds, may take one job's time."""
    of = pool(nodes=2, slots=4)
    rules = [tenant("a", [of], granted=granted, running=running), tenant("b", [of])]
    cluster = Cluster(supply([of], rules, ordering="priority", aging_s=10**9, reserve_after_s=300.0))
    longest = max(seconds for _, seconds in flood)

    def more() -> None:
        for units, seconds in flood:
            cluster.add("a", (offer(of, units),), seconds)
        for _ in range(others):
            cluster.add("b", (offer(of),), longest)

    more()
    before = len(cluster.queued)
    wide = cluster.add("a", (offer(of, 4),), 60, Level.LOW)
    bound = 300 + (before + 3) * longest
    while wide not in cluster.started:
        assert cluster.now <= bound
        cluster.round()
        cluster.advance()
        if len(cluster.queued) < 60:
            more()
