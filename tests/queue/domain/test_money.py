"""Budgets in the decision: who waits for money, whom that keeps waiting, and from whom money is taken."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gpupool.queue.domain.decide import decide
from gpupool.queue.domain.periods import period_end
from gpupool.queue.domain.state import BudgetUsage
from gpupool.queue.domain.supply import Allowance, PoolSupply
from gpupool.queue.records import MICRO, Level, WaitReason
from tests.queue.domain.simulated import GPU, Cluster, offer, pool, supply, tenant


def test_a_job_that_the_budget_keeps_waiting_keeps_no_cheaper_one() -> None:
    of = pool(nodes=2, slots=4)
    cluster = Cluster(supply([of], [tenant("a", [of], budget_micro=4 * MICRO)]))
    dear = cluster.add("a", (offer(of),), 36_000)  # 2 USD an hour
    own = cluster.add("a", (offer(of),), 3600, budget=0)
    cheap = cluster.add("a", (offer(of),), 3600)
    assert len({job.lane for job in cluster.queued}) == 1
    waits = cluster.round().waits
    assert list(cluster.started) == [cheap]
    assert waits[dear].reason is waits[own].reason is WaitReason.UNSCHEDULABLE
    assert "a may spend $4 a month, and an attempt holds $20" in waits[dear].detail
    assert "own budget" in waits[own].detail


def test_the_budget_that_lacks_most_is_named_with_the_end_of_its_period() -> None:
    of = pool(nodes=1, slots=4)  # 2 USD an hour
    rule = tenant("a", [of], budget_micro=10 * MICRO)
    budgets = rule.budgets | {"a/p": Allowance(5 * MICRO, 0, "week")}
    cluster = Cluster(supply([of], [replace(rule, budgets=budgets)]))
    cluster.now = datetime(2026, 11, 26, 9, 30, tzinfo=UTC).timestamp()  # a Thursday
    cluster.budget_usage = {"a": BudgetUsage(8 * MICRO, 0), "a/p": BudgetUsage(0, 4 * MICRO)}
    job = cluster.add("a", (offer(of),), 7200)  # 4 USD
    cluster.queued[0] = replace(cluster.queued[0], project="p")
    waiting = cluster.round().waits[job]
    assert waiting.reason is WaitReason.BUDGET
    assert "a/p has $5 a week: $0 spent, $4 held, $4 needed" in waiting.detail
    assert "the week ends at 2026-11-30 00:00 UTC" in waiting.detail


@pytest.mark.parametrize(
    ("period", "at", "ends"),
    [
        ("day", (2028, 2, 28, 23, 59), "2028-02-29"),
        ("week", (2026, 11, 30, 0, 0), "2026-12-07"),
        ("week", (2026, 12, 31, 12, 0), "2027-01-04"),
        ("month", (2026, 12, 1, 0, 0), "2027-01-01"),
        ("month", (2027, 1, 31, 23, 59), "2027-02-01"),
    ],
)
def test_periods_end_as_the_database_counts_them(period, at, ends) -> None:
    assert f"{period_end(period, datetime(*at, tzinfo=UTC).timestamp()):%Y-%m-%d %H:%M}" == f"{ends} 00:00"


@pytest.mark.parametrize("limit", ["tenant", "project", "own", "own, after an attempt"])
def test_what_no_period_pays_for_says_so_whatever_else_it_waits_for(limit) -> None:
    """As after a change of the file: also where the pool is full and the tenant has what it may."""
    of = pool(nodes=1, slots=1, spot=0)
    rule = tenant("a", [of], granted=1, running=1)
    budgets = {"tenant": {"a": Allowance(MICRO, 0, "month")}, "project": {"a/p": Allowance(MICRO, 0, "day")}}
    cluster = Cluster(supply([of], [rule]))
    cluster.add("a", (offer(of),), 600)
    cluster.round()
    cluster.supply = supply([of], [replace(rule, budgets=budgets.get(limit, {}))])
    job = cluster.add("a", (offer(of),), 3600, budget={"own": 0, "own, after an attempt": MICRO}.get(limit))
    spent = MICRO if limit == "own, after an attempt" else 0
    cluster.queued[0] = replace(cluster.queued[0], project="p", spent_micro=spent)
    cheap = cluster.add("a", (offer(of),), 600, Level.CRITICAL)
    waits = cluster.round().waits
    assert waits[job].reason is WaitReason.UNSCHEDULABLE
    assert waits[cheap].reason is WaitReason.TENANT_LIMIT


def test_a_job_that_spot_nodes_pay_for_may_wait_for_them_and_others_may_not() -> None:
    of = pool(nodes=2, slots=1, spot=1, share=0.5)  # 2 USD an hour, 1 on spot
    cluster = Cluster(supply([of], [tenant("a", [of], budget_micro=3 * MICRO // 2)]))
    dear = cluster.add("a", (offer(of),), 3600)
    cheap = cluster.add("a", (offer(of),), 3600, preemptible=True)
    waits = cluster.round().waits
    assert waits[dear].reason is WaitReason.UNSCHEDULABLE
    assert cluster.held[cheap].capacity_type == "spot"


def test_what_costs_nothing_is_paid_by_any_budget() -> None:
    of = replace(pool(nodes=1, slots=1), rate_micro={GPU: 0})
    cluster = Cluster(supply([of], [tenant("a", [of], budget_micro=0)]))
    free = cluster.add("a", (offer(of),), 3600, budget=0)
    cluster.round()
    assert free in cluster.held


def test_a_job_that_is_too_dear_for_its_other_offer_keeps_no_cheaper_one() -> None:
    full, empty = pool("full", nodes=1, slots=1), pool("empty", nodes=1, slots=1)
    of = tenant("a", [full, empty], budget_micro=4 * MICRO)
    cluster = Cluster(supply([full, empty], [of, tenant("b", [full])]))
    cluster.add("b", (offer(full),))
    cluster.round()
    cluster.budget_usage["a"] = BudgetUsage(2 * MICRO, 0)
    dear, cheap = (cluster.add("a", (offer(full), offer(empty)), seconds) for seconds in (7200, 3600))
    assert cluster.round().waits[dear].reason is WaitReason.CAPACITY
    assert cluster.held[cheap].pool == "empty"


def test_a_job_that_can_no_longer_pay_has_no_reservation() -> None:
    of = pool(nodes=1, slots=2)
    cluster = Cluster(supply([of], [tenant("a", [of], budget_micro=4 * MICRO), tenant("b", [of])]))
    running = cluster.add("b", (offer(of),), 36_000)
    cluster.round()
    dear = cluster.add("a", (offer(of, 2),), 3600)  # 4 USD
    cluster.now = 600.0
    assert cluster.round().reservations == {"pool": dear, "pool/a": dear}
    cluster.budget_usage["a"] = BudgetUsage(1, 0)
    del cluster.held[running]
    other = cluster.add("b", (offer(of),), 36_000)
    decision = cluster.round()
    assert decision.waits[dear].reason is WaitReason.BUDGET
    assert not decision.reservations
    assert other in cluster.held


def test_a_job_that_could_not_pay_preempts_and_reserves_nothing() -> None:
    of = pool(nodes=1, slots=1)  # 2 USD an hour
    cluster = Cluster(supply([of], [tenant("a", [of], budget_micro=MICRO), tenant("b", [of])]))
    cluster.add("b", (offer(of),), 36_000, preemptible=True)
    cluster.round()
    cluster.now = 7200.0
    cluster.budget_usage["a"] = BudgetUsage(MICRO // 2, 0)
    dear = cluster.add("a", (offer(of),), 1800, Level.CRITICAL, preempts=True)  # 1 USD
    cheap = cluster.add("a", (offer(of),), 600, Level.CRITICAL, preempts=True)  # 0.33 USD
    decision = decide(cluster.snapshot(), cluster.supply)
    assert decision.waits[dear].reason is WaitReason.BUDGET
    assert {one.beneficiary for one in decision.preempts} == {cheap}
    assert decision.reservations == {"pool": cheap, "pool/a": cheap}


def paying(of: PoolSupply, micro: int) -> Cluster:
    """A tenant whose budget is taken from lower jobs for higher ones."""
    rule = tenant("a", [of], budget_micro=micro)
    budgets = {"a": replace(rule.budgets["a"], on_exhausted="preempt", overrun_micro=0)}
    return Cluster(supply([of], [replace(rule, budgets=budgets)], aging_s=600.0))


def test_money_is_taken_for_one_job_at_a_time_and_no_more_than_is_missing() -> None:
    of = pool(nodes=2, slots=8)  # 2 USD an hour for a slot
    cluster = paying(of, 16 * MICRO)
    for _ in range(8):
        cluster.add("a", (offer(of),), 3600, preemptible=True)
    cluster.round()
    cluster.now = 60.0
    high = [cluster.add("a", (offer(of),), 3600, Level.HIGH) for _ in range(8)]
    decision = cluster.round()
    assert {one.beneficiary for one in decision.preempts} == {high[0]}
    assert len(decision.preempts) == 2  # one has used a 60th of what it holds
    cluster.round()
    assert high[0] in cluster.started
    assert high[1] not in cluster.started


def test_money_that_is_given_back_is_not_for_others() -> None:
    of = pool(nodes=2, slots=8)
    cluster = paying(of, 10 * MICRO)
    low = [cluster.add("a", (offer(of),), 9000, preemptible=True) for _ in range(2)]  # 5 USD each
    cluster.round()
    cluster.now = 100.0
    high = cluster.add("a", (offer(of),), 16_200, Level.HIGH)  # 9 USD
    cheap = cluster.add("a", (offer(of),), 5400, Level.HIGH)  # 3 USD, of the same lane
    decision = decide(cluster.snapshot(), cluster.supply)
    assert {one.job for one in decision.preempts} == set(low)
    cluster.reservations = dict(decision.reservations)
    first, second = (cluster.held[job]._replace(preempting_for=high) for job in low)
    cluster.held = {second.job: second}
    account = cluster.budget_usage["a"]
    cluster.budget_usage["a"] = account._replace(held_micro=account.held_micro - first.hold_micro)
    decision = decide(cluster.snapshot(), cluster.supply)
    assert not decision.starts
    assert decision.waits[cheap].reason is WaitReason.BUDGET
    cluster.held, cluster.budget_usage = {}, {}
    started = [start.job for start in decide(cluster.snapshot(), cluster.supply).starts]
    assert started == [high]


def test_a_job_that_gave_its_money_back_does_not_take_it_again_by_age() -> None:
    of = pool(nodes=2, slots=8)
    cluster = paying(of, 10 * MICRO)
    low = cluster.add("a", (offer(of),), 10_800, preemptible=True)  # 6 USD
    cluster.round()
    cluster.now = 7300.0
    high = cluster.add("a", (offer(of),), 9000, Level.HIGH)  # 5 USD
    assert [one.job for one in cluster.round().preempts] == [low]
    cluster.round()
    assert list(cluster.held) == [high]


def test_where_the_budget_says_so_a_higher_job_takes_what_lower_ones_hold() -> None:
    of = pool(nodes=2, slots=4)
    cluster = paying(of, 4 * MICRO)
    low = cluster.add("a", (offer(of),), 7200, preemptible=True)  # 2 USD an hour: all of the budget
    cluster.round()
    cluster.now = 600.0
    high = cluster.add("a", (offer(of),), 1800, Level.HIGH)
    decision = cluster.round()
    assert [preempt.job for preempt in decision.preempts] == [low]
    cluster.round()
    assert high in cluster.started
    assert low not in cluster.held
