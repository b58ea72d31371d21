"""Spot nodes while there are any, else on-demand nodes: what the file may say, what it costs and becomes."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.environment.plan.pool_cost import HOURS_PER_MONTH, monthly_cost
from gpupool.findings import SpecError
from gpupool.generators import generate
from gpupool.queue.domain.supply import supply_of
from tests.environment.plan.test_reserved import environment
from tests.environment_files import plan_of

BOTH = ["spot", "on-demand"]


def test_one_node_pool_has_both_and_the_whole_maximum() -> None:
    plan = plan_of(environment([{"id": "cr-0", "count": 1}], capacity=BOTH))
    sides = [(side.name, side.types, side.max_nodes) for side in plan.pools[0].capacities]
    assert sides == [("pool-reserved", ("reserved",), 1), ("pool", ("spot", "on-demand"), 3)]
    (body,) = (m.body for m in generate(plan) if (m.kind, m.name) == ("NodePool", "pool"))
    requirements = body["spec"]["template"]["spec"]["requirements"]
    assert {"key": "karpenter.sh/capacity-type", "operator": "In", "values": BOTH} in requirements


def test_it_may_cost_little_and_is_held_for_as_if_it_cost_most() -> None:
    plan = plan_of(environment([], capacity=BOTH, warm=1))
    cost = monthly_cost(plan.pools[0])
    assert cost is not None
    assert (cost.floor, cost.ceiling) == (4 * HOURS_PER_MONTH, 4 * 10 * HOURS_PER_MONTH)
    pool = supply_of(plan).pools["pool"]
    assert pool.types == {"spot-first"}
    assert pool.spot_rate_micro == {"nvidia.com/gpu": 500_000}
    assert pool.rate_micro == {"nvidia.com/gpu": 1_250_000}


@pytest.mark.parametrize(
    ("nodes", "message", "hint"),
    [
        ({"capacity": ["spot"]}, "capacity [spot] is not", "use spotShare: 1"),
        ({"capacity": ["on-demand"]}, "capacity [on-demand] is not", "remove it"),
        ({"capacity": ["on-demand", "spot"]}, "[on-demand, spot] is not", "use [spot, on-demand]"),
        ({"capacity": BOTH, "spotShare": 0.5}, "both set the share of spot nodes", "remove one of them"),
        ({"capacity": BOTH, "spotShare": 0}, "both set the share of spot nodes", "remove one of them"),
    ],
)
def test_what_says_something_else_is_refused(nodes: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(SpecError) as error:
        plan_of(environment([], **nodes))
    (finding,) = error.value.findings
    assert finding.path == "pools[0].nodes.capacity"
    assert message in finding.what
    assert hint in finding.remediation
