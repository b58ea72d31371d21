"""Reserved capacity in the file: what it may say, what it costs, and what Karpenter gets of it."""

from __future__ import annotations

from datetime import date
from math import inf
from typing import Any

import pytest

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.pool_cost import HOURS_PER_MONTH, MonthlyCost, total_monthly_cost
from gpupool.findings import SpecError
from gpupool.generators import generate
from gpupool.policy import gate as policy_gate
from gpupool.queue.simulate.nodes import SimulatedNodes
from tests.environment_files import environment_data, plan_of

BLOCK = {"id": "cr-0a1b2c", "count": 2, "until": "2027-01-31T11:30Z"}
TAGGED = {"tags": {"team": "ml"}, "count": 1}


def environment(reserved: list[dict[str, Any]], platform: str = "eks", **nodes: Any) -> dict[str, Any]:
    price = {"usdPerHour": {"onDemand": 10.0, "spot": 4.0, "reserved": 7.0}}
    machines = {"instanceTypes": ["p4de.24xlarge"], "max": 4, "reserved": reserved, **price, **nodes}
    return environment_data(
        platform,
        cluster={"region": "us-east-1"},
        karpenter={"nodeRole": "nodes"},
        pools=[{"name": "pool", "gpu": "a100-80gb", "nodes": machines}],
    )


def test_reserved_nodes_have_a_node_pool_of_their_own_that_is_tried_first() -> None:
    plan = plan_of(environment([BLOCK, TAGGED], spotShare=1))
    sides = [(side.name, side.type, side.max_nodes, side.weight) for side in plan.pools[0].capacities]
    assert sides == [("pool-reserved", "reserved", 3, 30), ("pool", "spot", 1, 20)]
    bundle = generate(plan)
    of_kind = {(m.kind, m.name): m.body.get("spec") for m in bundle}
    reserved = of_kind["NodePool", "pool-reserved"]
    assert reserved["limits"] == {"nodes": "3", "nvidia.com/gpu": "24"}
    requirements = reserved["template"]["spec"]["requirements"]
    assert {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]} in requirements
    terms = of_kind["EC2NodeClass", "pool"]["capacityReservationSelectorTerms"]
    assert terms == [{"tags": {"team": "ml"}}, {"id": "cr-0a1b2c"}]


def test_what_is_reserved_costs_the_same_whether_it_is_used_or_not() -> None:
    reserved, others = 2 * 7 * HOURS_PER_MONTH, 2 * 10 * HOURS_PER_MONTH
    cold = total_monthly_cost(plan_of(environment([BLOCK])).pools)
    assert cold == MonthlyCost(reserved, 0, reserved + others)
    warm = total_monthly_cost(plan_of(environment([BLOCK], warm=3)).pools)
    one = 10 * HOURS_PER_MONTH
    assert warm == MonthlyCost(reserved + one, one, reserved + others), "two are paid for anyway"


@pytest.mark.parametrize(
    ("reserved", "nodes", "path", "message"),
    [
        ([{"count": 1}], {}, "reserved[0]", "neither id nor tags"),
        ([{**BLOCK, "tags": {"a": "b"}}], {}, "reserved[0]", "both id and tags"),
        ([{**BLOCK, "count": 5}], {}, "reserved", "5 nodes are reserved, but the pool has at most 4"),
        ([BLOCK, BLOCK], {}, "reserved[1].id", "cr-0a1b2c is listed twice"),
        ([TAGGED, TAGGED], {}, "reserved[1].tags", "what these tags find is listed twice"),
        ([TAGGED, {"tags": {"team": "ml", "for": "x"}, "count": 1}], {}, "reserved[1].tags", "listed twice"),
        ([TAGGED, {"tags": {"team": "*"}, "count": 1}], {}, "reserved[1].tags", "listed twice"),
        ([{**BLOCK, "until": "soon"}], {}, "reserved[0].until", "not a time in UTC"),
        ([{**BLOCK, "until": "2027-02-31T11:30Z"}], {}, "reserved[0].until", "not a time in UTC"),
        ([{**BLOCK, "id": "i-1"}], {}, "reserved[0].id", "i-1"),
        ([{**BLOCK, "count": 3}], {"spotShare": 0.5}, "spotShare", "one node beside 3 reserved"),
    ],
)
def test_what_can_not_be_is_refused(
    reserved: list[dict[str, Any]], nodes: dict[str, Any], path: str, message: str
) -> None:
    with pytest.raises(SpecError) as refused:
        plan_of(environment(reserved, **nodes))
    (finding,) = refused.value.findings
    assert finding.path == f"pools[0].nodes.{path}"
    assert message in finding.what


def test_other_things_that_contradict_it_are_refused() -> None:
    data = environment([BLOCK])
    data["karpenter"]["values"] = {"settings": {"featureGates": {"reservedCapacity": False}}}
    other = {**data["pools"][0], "name": "pool-reserved"}
    mixed = {
        "instanceTypes": ["g6.xlarge", "g6.12xlarge"],
        "maxGpus": 8,
        "reserved": [{**BLOCK, "id": "cr-2"}],
    }
    data["pools"] += [other, {"name": "mixed", "gpu": "l4", "nodes": mixed}]
    with pytest.raises(SpecError) as refused:
        plan_of(data)
    messages = "\n".join(finding.what for finding in refused.value.findings)
    assert "reservedCapacity is derived" in messages
    assert "would be named pool-reserved" in messages
    assert "cr-0a1b2c is also in pool pool" in messages
    assert "different numbers of GPUs" in messages


@pytest.mark.parametrize(
    ("tags", "machine", "refused"),
    [
        ({"team": "ml"}, "g6.12xlarge", True),
        ({"team": "ml", "for": "x"}, "g6.12xlarge", True),
        ({"team": "ml"}, "g6.xlarge", False),
        ({"team": "web"}, "g6.12xlarge", False),
        ({"for": "x"}, "g6.12xlarge", False),
    ],
)
def test_tags_of_two_pools_do_not_find_the_same(tags: dict[str, str], machine: str, refused: bool) -> None:
    nodes = {"instanceTypes": ["g6.12xlarge"], "max": 1, "reserved": [TAGGED]}
    other = {"instanceTypes": [machine], "max": 1, "reserved": [{"tags": tags, "count": 1}]}
    data = environment([BLOCK])
    data["pools"] = [{"name": "a", "gpu": "l4", "nodes": nodes}, {"name": "b", "gpu": "l4", "nodes": other}]
    try:
        plan_of(data)
    except SpecError as error:
        (finding,) = error.findings
        assert finding.path == "pools[1].nodes.reserved[0].tags"
        assert "is also in pool a" in finding.what
        assert refused
    else:
        assert not refused


def test_one_that_has_ended_is_warned_of() -> None:
    plan = plan_of(environment([BLOCK]))

    def ended(today: date) -> list[str]:
        report = policy_gate.judge(plan, today)
        return [finding.level for finding in report.findings if finding.rule == "reservation-ended"]

    assert ended(date(2027, 1, 31)) == []
    assert ended(date(2027, 2, 1)) == ["warn"]


def consolidation(plan: Plan) -> dict[str, str]:
    pools = (manifest for manifest in generate(plan) if manifest.kind == "NodePool")
    return {pool.name: pool.body["spec"]["disruption"]["consolidateAfter"] for pool in pools}


def test_reserved_nodes_are_not_stopped_when_they_are_empty() -> None:
    """They are paid for either way, and a Capacity Block cleans up for minutes before it starts another."""
    plan = plan_of(environment([BLOCK], consolidateAfter="3m"))
    assert consolidation(plan) == {"pool-reserved": "Never", "pool": "3m"}
    report = policy_gate.judge(plan, date(2026, 12, 1))
    assert [finding for finding in report.findings if finding.level == "deny"] == []
    plan = plan_of(environment([BLOCK], reservedConsolidateAfter="1h"))
    assert consolidation(plan) == {"pool-reserved": "1h", "pool": "10m"}


def test_a_time_for_reserved_nodes_needs_some() -> None:
    with pytest.raises(SpecError) as refused:
        plan_of(environment([], reservedConsolidateAfter="1h"))
    (finding,) = refused.value.findings
    assert finding.path == "pools[0].nodes.reservedConsolidateAfter"


@pytest.mark.parametrize(
    ("nodes", "usd", "fine"),
    [
        ({}, 1, True),
        ({"warm": 2}, 1, True),
        ({"warm": 3}, 10 * HOURS_PER_MONTH, True),
        ({"warm": 3}, 10 * HOURS_PER_MONTH - 1, False),
    ],
)
def test_a_budget_owes_warm_nodes_and_nothing_that_is_reserved(
    nodes: dict[str, Any], usd: float, fine: bool
) -> None:
    tenant = {"name": "a", "namespace": "team-a", "pools": {"pool": {"gpus": 8}}, "budget": {"usd": usd}}
    data = {**environment([BLOCK], **nodes), "tenants": [tenant]}
    if fine:
        assert plan_of(data).tenants
        return
    with pytest.raises(SpecError, match="share of the warm nodes of pool"):
        plan_of(data)


@pytest.mark.parametrize(("after", "stays"), [("Never", True), ("5m", False)])
def test_the_simulator_stops_what_is_rendered_to_stop(after: str, stays: bool) -> None:
    plan = plan_of(environment([BLOCK], reservedConsolidateAfter=after))
    nodes = SimulatedNodes.of(plan.pools[0], {"batch": 10, "startup": 100, "consolidation": 15}, 0)
    reserved = next(number for number, state in enumerate(nodes.states) if state.type == "reserved")
    nodes.begin(0)
    assert nodes.take(reserved, 50) == (50 if stays else 160), "ready at once, or started for the job"
    gone = nodes.leave(reserved, 1000)
    assert gone == (inf if stays else 1315)
    nodes.close(7200)
    assert nodes.usd == 2 * 7 * 2, "paid for all the time, on or off"
