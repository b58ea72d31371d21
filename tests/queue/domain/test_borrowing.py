"""What others leave idle is lent, and given back: at once, by who has most of it, and never in circles."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.queue.domain.decide import decide
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import Decision, Level, WaitReason
from tests.examples import examples
from tests.queue.domain.simulated import GPU, Cluster, offer, pool, supply, tenant

MINIMUM_S, GRACE_S, ROUND_S = 60, 30, 2
KEY = ("pool", GPU)


def lending(nodes: int = 2, slots: int = 4, **grants: tuple[int, int]) -> Cluster:
    """A pool for tenants of (grant, upTo)."""
    of = pool(nodes=nodes, slots=slots)
    rules = [tenant(name, [of], granted=grant, up_to=most) for name, (grant, most) in grants.items()]
    return Cluster(supply([of], rules), grace=GRACE_S)


def fill(cluster: Cluster, name: str, jobs: int, units: int = 1, preemptible: bool = True) -> list[str]:
    of = offer(cluster.supply.pools["pool"], units)
    return [cluster.add(name, (of,), 10**6, preemptible=preemptible) for _ in range(jobs)]


def used(cluster: Cluster, name: str) -> int:
    return sum(held.units for held in cluster.held.values() if held.tenant == name)


def rounds(cluster: Cluster, seconds: float) -> list[Decision]:
    """What is decided while so much time passes."""
    decisions = [cluster.round()]
    for _ in range(int(seconds / ROUND_S)):
        cluster.wait(ROUND_S)
        decisions.append(cluster.round())
    return decisions


def test_what_others_leave_idle_is_used_by_jobs_that_give_way() -> None:
    cluster = lending(a=(4, 8), b=(4, 4))
    kept, lent = fill(cluster, "a", 5, preemptible=False), fill(cluster, "a", 5)
    decision = cluster.round()
    running = {job: held.borrowed for job, held in cluster.held.items()}
    assert running == {**dict.fromkeys(kept[:4], False), **dict.fromkeys(lent[:4], True)}
    assert decision.waits[kept[4]].reason is WaitReason.TENANT_LIMIT
    assert "8 with borrowing" in decision.waits[lent[4]].detail


def test_who_is_below_its_grant_gets_it_back_after_the_least_time() -> None:
    cluster = lending(a=(4, 8), b=(4, 4))
    fill(cluster, "a", 8)
    cluster.round()
    mine = fill(cluster, "b", 9)
    (waiting,) = {cluster.round().waits[mine[0]].detail}
    assert "borrowed" not in waiting, "those that run have just started"
    rounds(cluster, MINIMUM_S)
    assert sorted(cluster.preempted.values()) == [1, 1, 1, 1], "all at once, and no more than that"
    assert used(cluster, "b") == 0
    rounds(cluster, GRACE_S)
    assert (used(cluster, "a"), used(cluster, "b")) == (4, 4)
    assert not any(held.borrowed for held in cluster.held.values() if held.tenant == "b")
    assert len(rounds(cluster, 1000)) > 0
    assert sum(cluster.preempted.values()) == 4, "never in circles"


def test_no_more_is_given_back_than_is_asked_for() -> None:
    cluster = lending(nodes=3, a=(4, 12), b=(8, 8))
    fill(cluster, "a", 12)
    cluster.round()
    fill(cluster, "b", 3)
    rounds(cluster, MINIMUM_S + GRACE_S)
    assert used(cluster, "b") == 3
    assert sum(cluster.preempted.values()) == 3, "while they end nothing else is asked to"


def test_a_job_that_has_not_started_loses_nothing_and_goes_at_once() -> None:
    cluster = lending(a=(4, 8), b=(4, 4))
    fill(cluster, "a", 8)
    cluster.round()
    cluster.held = {job: held._replace(started=False) for job, held in cluster.held.items()}
    fill(cluster, "b", 1)
    assert len(cluster.round().preempts) == 1


def test_nothing_more_is_lent_while_somebody_waits_for_what_is_its_own() -> None:
    """Else jobs that have just started would follow each other for ever."""
    cluster = lending(nodes=1, a=(0, 4), b=(4, 4))
    of = offer(cluster.supply.pools["pool"])
    for number in range(40):
        cluster.add("a", (of,), 10**6, takes=45 + number, preemptible=True)
        if number % 4 == 3:
            cluster.wait(15)
            cluster.round()
    fill(cluster, "b", 1, units=4)
    rounds(cluster, MINIMUM_S + GRACE_S)
    assert used(cluster, "b") == 4


def test_the_tenant_that_has_borrowed_most_for_its_weight_gives_back_first() -> None:
    of = pool(nodes=3, slots=4)
    rules = [tenant("heavy", [of], 4.0, granted=2, up_to=12), tenant("light", [of], 1.0, granted=2, up_to=12)]
    cluster = Cluster(supply([of], [*rules, tenant("owner", [of], granted=8)]), grace=GRACE_S)
    fill(cluster, "light", 5)
    cluster.round()
    fill(cluster, "heavy", 12)
    cluster.round()
    assert (used(cluster, "heavy"), used(cluster, "light")) == (7, 5)
    cluster.wait(MINIMUM_S)
    fill(cluster, "owner", 1)
    (preempt,) = cluster.round().preempts
    assert cluster.held[preempt.job].tenant == "light"


def test_what_is_lent_is_split_by_weight() -> None:
    of = pool(nodes=3, slots=4)
    rules = [tenant("heavy", [of], 3.0, granted=2, up_to=12), tenant("light", [of], 1.0, granted=2, up_to=12)]
    cluster = Cluster(supply([of], rules))
    fill(cluster, "light", 12)
    fill(cluster, "heavy", 12)
    cluster.round()
    assert (used(cluster, "heavy"), used(cluster, "light")) == (2 + 6, 2 + 2)


def test_of_one_tenant_the_job_of_which_least_is_lost_gives_back() -> None:
    cluster = lending(nodes=1, a=(1, 4), b=(3, 3))
    fill(cluster, "a", 3)
    cluster.round()
    cluster.wait(500)
    (last,) = fill(cluster, "a", 1)
    cluster.round()
    cluster.wait(MINIMUM_S)
    fill(cluster, "b", 1)
    assert [preempt.job for preempt in cluster.round().preempts] == [last]


def test_a_job_over_several_nodes_takes_back_no_more_than_is_borrowed() -> None:
    cluster = lending(nodes=3, a=(4, 12), b=(8, 8))
    fill(cluster, "a", 3, units=4)
    cluster.round()
    cluster.wait(MINIMUM_S)
    fill(cluster, "b", 1, units=8)
    assert len(cluster.round().preempts) == 2
    rounds(cluster, GRACE_S)
    assert (used(cluster, "a"), used(cluster, "b")) == (4, 8)


def test_a_job_within_its_tenants_grant_gives_nothing_back() -> None:
    """One that was borrowed once, and is all that its tenant has left."""
    cluster = lending(nodes=1, a=(2, 4), b=(4, 4))
    first, second = fill(cluster, "a", 2, units=2)
    cluster.round()
    assert [cluster.held[job].borrowed for job in (first, second)] == [False, True]
    cluster._end(cluster.held[first])
    fill(cluster, "b", 1, units=4)
    cluster.wait(1000)
    assert cluster.round().preempts == ()


def test_a_job_that_no_budget_pays_for_takes_nothing_back() -> None:
    of = pool(nodes=1, slots=4)
    rules = [tenant("a", [of], granted=1, up_to=4), tenant("b", [of], granted=3, budget_micro=1)]
    cluster = Cluster(supply([of], rules))
    fill(cluster, "a", 4)
    cluster.round()
    cluster.wait(MINIMUM_S)
    fill(cluster, "b", 3)
    assert cluster.round().preempts == ()


def test_a_job_that_preempts_takes_what_is_borrowed_before_others_jobs() -> None:
    of = pool(nodes=1, slots=4)
    rules = [
        tenant("a", [of], granted=1, up_to=4),
        tenant("b", [of], granted=2),
        tenant("c", [of], granted=2),
    ]
    cluster = Cluster(supply([of], rules))
    fill(cluster, "c", 2)
    fill(cluster, "a", 2)
    cluster.round()
    cluster.wait(MINIMUM_S)
    at = offer(of)
    cluster.add("b", (at,), level=Level.CRITICAL, preempts=True)
    assert [cluster.waiting_jobs[preempt.job].tenant for preempt in cluster.round().preempts] == ["a"]


NAMES = ("a", "b", "c")


@st.composite
def scenes(draw: st.DrawFn) -> tuple[Supply, list[tuple[str, int, int, bool]]]:
    """Tenants whose grants fit into the pool, and (tenant, units, seconds that it takes, preemptible) of
    jobs."""
    nodes, slots = draw(st.integers(1, 3)), draw(st.sampled_from((2, 4)))
    of, left, rules = pool(nodes=nodes, slots=slots), nodes * slots, []
    for name in NAMES:
        grant = draw(st.integers(0, left))
        left -= grant
        most = draw(st.integers(grant, nodes * slots))
        weight = draw(st.sampled_from((0.5, 1.0, 3.0)))
        rules.append(tenant(name, [of], weight, granted=grant, guaranteed=grant, up_to=most))
    job = st.tuples(
        st.sampled_from(NAMES), st.sampled_from((1, 1, 2)), st.sampled_from((20, 100, 10**6)), st.booleans()
    )
    return supply([of], rules), draw(st.lists(job, min_size=5, max_size=40))


@given(scenes(), st.data())
@examples("queue", 200)
def test_nobody_loses_what_is_within_its_grant_and_it_ends(
    scene: tuple[Supply, list[tuple[str, int, int, bool]]], data: st.DataObject
) -> None:
    rules, jobs = scene
    cluster, of = Cluster(rules, grace=GRACE_S), rules.pools["pool"]
    for name, units, takes, preemptible in jobs:
        cluster.add(name, (offer(of, units),), 10**6, takes=takes, preemptible=preemptible)
        if data.draw(st.booleans()):
            cluster.wait(data.draw(st.sampled_from((2, 30, 70))))
            _just(cluster, rules)
    for _ in range(200):
        cluster.wait(ROUND_S)
        _just(cluster, rules)
    assert not cluster.asked, "nothing is submitted any more, and what runs stays"


def _just(cluster: Cluster, rules: Supply) -> None:
    """A round in which no tenant is brought below its grant by more than a part of one job, for no tenant
    above its own."""
    before = {
        name: sum(
            held.units for held in cluster.held.values() if held.tenant == name and not held.preempting_for
        )
        for name in NAMES
    }
    total = {name: used(cluster, name) for name in NAMES}
    decision = cluster.round()
    for preempt in decision.preempts:
        held, owner = cluster.waiting_jobs[preempt.job], cluster.waiting_jobs[preempt.beneficiary].tenant
        assert before[held.tenant] > rules.tenants[held.tenant].grants[KEY]
        before[held.tenant] -= held.offers[0].units
        assert total[owner] < rules.tenants[owner].grants[KEY]


@given(scenes())
@examples("queue", 200)
def test_a_tenant_with_work_is_back_at_its_grant_in_time(
    scene: tuple[Supply, list[tuple[str, int, int, bool]]],
) -> None:
    rules, jobs = scene
    cluster, of = Cluster(rules, grace=GRACE_S), rules.pools["pool"]
    for name, _, _, _ in jobs:
        if name != "a":
            cluster.add(name, (offer(of),), 10**6, preemptible=True)
    cluster.round()
    cluster.wait(7)
    granted = rules.tenants["a"].grants[KEY]
    fill(cluster, "a", granted + 1, preemptible=False)
    rounds(cluster, MINIMUM_S + GRACE_S + ROUND_S)
    assert used(cluster, "a") == granted
    assert sum(cluster.preempted.values()) <= granted
    assert not [held for held in cluster.held.values() if held.tenant == "a" and held.borrowed]


@given(scenes(), st.booleans())
@examples("queue", 200)
def test_without_jobs_that_may_borrow_every_decision_is_as_before(
    scene: tuple[Supply, list[tuple[str, int, int, bool]]], preemptible: bool
) -> None:
    """Without `upTo`, or without jobs that give way."""
    rules, jobs = scene
    plain = replace(rules, tenants={name: replace(rule, up_to={}) for name, rule in rules.tenants.items()})
    cluster, of = Cluster(plain), rules.pools["pool"]
    for name, units, takes, _ in jobs:
        cluster.add(name, (offer(of, units),), 1000, takes=takes, preemptible=preemptible)
        if not preemptible:
            assert decide(cluster.snapshot(), rules) == decide(cluster.snapshot(), plain)
        assert not any(start.borrowed for start in cluster.round().starts)
        cluster.wait(10)
    assert not cluster.preempted


@pytest.mark.parametrize("ordering", ["fifo", "priority", "fair-share"])
def test_whatever_the_order_borrowers_go_last(ordering: str) -> None:
    of = pool(nodes=1, slots=4)
    rules = [tenant("a", [of], granted=1, up_to=4), tenant("b", [of], granted=2)]
    cluster = Cluster(supply([of], rules, ordering=ordering))
    fill(cluster, "a", 4)
    cluster.now += 5
    fill(cluster, "b", 2, preemptible=False)
    cluster.round()
    assert (used(cluster, "a"), used(cluster, "b")) == (2, 2)
