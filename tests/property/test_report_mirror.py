"""A report of A to B mirrors one of B to A: what came there goes here, and every number has changed sides."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.plan.changes import totals
from gpupool.environment.plan.changes.model import BeforeAfter, PoolChange, TenantChange
from gpupool.environment.plan.changes.pools import pool_changes
from gpupool.environment.plan.changes.tenants import tenant_changes
from gpupool.environment.plan.model import Plan
from gpupool.generators import generate
from gpupool.review.report.effects.order import node_effects
from gpupool.review.report.effects.sentences import in_words
from gpupool.review.report.environment_state import EnvironmentState
from tests.environment_files import Data, plan_of
from tests.environment_strategies import environments
from tests.examples import examples

OPPOSITE = {"added": "removed", "removed": "added"}


def mirrored(change: BeforeAfter[Any]) -> BeforeAfter[Any]:
    """The same, read from the other side."""
    return BeforeAfter(change.after, change.before)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Data, Data]:
    """Two environments that are often alike: the same in another order, one pool under another name."""
    one = draw(environments())
    other = draw(environments(platform=one["cluster"]["platform"]))
    if draw(st.booleans()):
        other = {**one, "pools": draw(st.permutations(one["pools"]))}
        if other["pools"] and draw(st.booleans()):
            other = _renamed(other, other["pools"][0]["name"], "another-name")
    return one, other


def _renamed(environment: Data, old: str, new: str) -> Data:
    if any(pool["name"] == new for pool in environment["pools"]):
        return environment
    pools = [{**pool, "name": new} if pool["name"] == old else pool for pool in environment["pools"]]
    tenants = [
        {**tenant, "pools": {new if name == old else name: grant for name, grant in tenant["pools"].items()}}
        for tenant in environment["tenants"]
    ]
    return {**environment, "pools": pools, "tenants": tenants}


@examples("report", 60)
@given(pairs())
def test_pools_and_tenants_change_sides(pair: tuple[Data, Data]) -> None:
    one, other = map(plan_of, pair)
    _mirrored(pool_changes(one, other), pool_changes(other, one))
    _mirrored(tenant_changes(one, other), tenant_changes(other, one))


def _mirrored(forth: Any, back: Any) -> None:
    returned = {(each.renamed_from or each.name): each for each in back}
    assert len(returned) == len(back) == len(forth)
    for each in forth:
        other = returned[each.name]
        assert other.change == OPPOSITE.get(each.change, each.change)
        assert (other.renamed_from is None) == (each.renamed_from is None)
        assert other.name == (each.renamed_from or each.name)
        assert {(f.name, f.after, f.before) for f in other.fields} == {
            (f.name, f.before, f.after) for f in each.fields
        }
        if isinstance(each, PoolChange):
            assert (other.before, other.after) == (each.after, each.before)
        if isinstance(each, TenantChange):
            assert {(q.resource, q.after, q.before) for q in other.quota} == {
                (q.resource, q.before, q.after) for q in each.quota
            }
            assert other.budget == mirrored(each.budget)


@examples("report", 40)
@given(pairs())
def test_totals_change_sides_and_add_up(pair: tuple[Data, Data]) -> None:
    one, other = map(plan_of, pair)
    for total in (totals.gpus, totals.nodes, totals.cost):
        forth: BeforeAfter[Any] = total(one, other)
        assert total(other, one) == mirrored(forth)
    forth_resources = totals.resource_changes(one, other)
    assert [(r.resource, r.after, r.before) for r in totals.resource_changes(other, one)] == [
        (r.resource, r.before, r.after) for r in forth_resources
    ]
    assert totals.gpus(one, other).before == sum(pool.gpus_max for pool in one.pools)


@examples("report", 40)
@given(environments())
def test_the_same_twice_is_no_change(environment: Data) -> None:
    plan = plan_of(environment)
    assert {change.change for change in pool_changes(plan, plan)} <= {"unchanged"}
    assert {change.change for change in tenant_changes(plan, plan)} <= {"unchanged"}
    state = EnvironmentState(plan, generate(plan))
    assert node_effects(state, state) == ()


@examples("report", 40)
@given(pairs())
def test_every_node_that_can_be_lost_is_reported(pair: tuple[Data, Data]) -> None:
    """Against what the two lists of NodePools say by themselves: one that goes takes its nodes with it, and
    one whose nodes are born with other labels or taints replaces them."""
    one, other = map(plan_of, pair)
    effects = node_effects(EnvironmentState(one, generate(one)), EnvironmentState(other, generate(other)))
    sentences_of = {effect.node_pool: effect for effect in effects if effect.kind in ("deleted", "replaced")}
    old, new = _node_pools(one), _node_pools(other)
    stay = {name for name in old if name not in new and one.delivery.on_removal != "delete"}
    for name, (max_nodes, born) in old.items():
        if name in stay:
            assert name not in sentences_of
        elif name not in new:
            assert (sentences_of[name].kind, sentences_of[name].nodes_max, sentences_of[name].at_once) == (
                "deleted",
                max_nodes,
                None,
            )
        elif born != new[name][1]:
            assert (sentences_of[name].kind, sentences_of[name].nodes_max) == ("replaced", max_nodes)
    assert not any(effect.node_pool not in old for effect in sentences_of.values())
    assert all(in_words(effect).what for effect in effects)


def _node_pools(plan: Plan) -> dict[str, tuple[int, Any]]:
    """NodePool -> its most nodes, and what they are born with."""
    return {
        capacity.name: (capacity.max_nodes, (dict(pool.labels), set(pool.taints), pool.expire_after))
        for pool in plan.pools
        for capacity in pool.capacities
    }
