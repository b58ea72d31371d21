"""Tenants' NetworkPolicies: where their pods may connect to."""

from __future__ import annotations

import pytest

from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.load import environment_names
from gpupool.generators import network
from tests.egress import METADATA_SERVICE, NODE, Object, reaches


@pytest.fixture(params=environment_names())
def tenants(request: pytest.FixtureRequest) -> list[Object]:
    plan = read_plan(request.param)
    of = {tenant.namespace for tenant in plan.tenants}
    return [made.body["spec"] for made in network.generate(plan) if made.namespace in of]


def test_pods_reach_the_api_server_also_where_an_ip_block_matches_no_node(tenants: list[Object]) -> None:
    assert tenants
    for spec in tenants:
        assert all(reaches(spec, NODE, port) for port in (53, 443, 6443))
        assert not any(reaches(spec, NODE, port) for port in (80, 10250))


def test_pods_never_reach_the_metadata_service(tenants: list[Object]) -> None:
    """It is served at port 80."""
    for spec in tenants:
        assert not any(reaches(spec, address, port) for address in METADATA_SERVICE for port in (80, 8080))
        assert all(reaches(spec, address, 80) for address in ("169.254.169.253", "2001:db8::1"))
