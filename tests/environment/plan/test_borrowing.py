"""What a tenant may borrow in the file: what it may say, and the quotas and classes that follow."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpupool.environment.plan.pods import BORROWED_CLASS
from gpupool.findings import SpecError
from gpupool.generators import generate
from gpupool.queue.domain.offers import GpuRequest, UnservableRequest, offers
from gpupool.queue.domain.supply import supply_of
from tests.environment_files import environment_data, plan_of

NVIDIA = "nvidia.com/gpu"
BASE: dict[str, Any] = environment_data(
    "eks",
    pools=[
        {
            "name": "shared",
            "gpu": "t4",
            "sharing": {"mode": "time-slicing", "replicas": 4},
            "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 4},
        },
        {
            "name": "parted",
            "gpu": "a100-80gb",
            "sharing": {"mode": "mig", "layout": {"3g.40gb": 1, "2g.20gb": 2}},
            "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 1},
        },
    ],
    priorities=[
        {"name": "high", "value": 10, "level": "high"},
        {"name": "low", "value": 1, "level": "low", "preemptible": True},
    ],
    tenants=[{"name": "a", "namespace": "team-a", "pools": {}}],
)


def environment(pools: dict[str, Any], **changes: Any) -> dict[str, Any]:
    data = copy.deepcopy(BASE)
    data["tenants"][0]["pools"] = pools
    return {**data, **changes}


def test_quotas_allow_what_is_lent_and_hold_everything_else_to_the_grant() -> None:
    plan = plan_of(environment({"shared": {"gpus": 1, "upTo": 3}, "parted": {"profiles": {"2g.20gb": 2}}}))
    (tenant,) = plan.tenants
    assert tenant.up_to == {"shared": {NVIDIA: 12}}
    bodies = {(m.kind, m.name): m.body for m in generate(plan)}
    whole, granted = (bodies["ResourceQuota", name]["spec"] for name in ("gpupool", "gpupool-granted"))
    assert (whole["hard"][f"requests.{NVIDIA}"], granted["hard"][f"requests.{NVIDIA}"]) == ("12", "4")
    assert whole["hard"]["requests.cpu"] != granted["hard"]["requests.cpu"]
    (scope,) = granted["scopeSelector"]["matchExpressions"]
    assert scope == {"scopeName": "PriorityClass", "operator": "NotIn", "values": [BORROWED_CLASS]}
    assert "scopeSelector" not in whole
    lent = bodies["PriorityClass", BORROWED_CLASS]
    assert (lent["value"], lent["preemptionPolicy"]) == (-1, "Never")


def test_a_tenant_may_have_no_more_than_what_it_borrows() -> None:
    pools = {"shared": {"gpus": 0, "upTo": 3}, "parted": {"profiles": {"2g.20gb": 0}, "upTo": {"2g.20gb": 2}}}
    plan = plan_of(environment(pools))
    hard = {m.name: m.body["spec"]["hard"] for m in generate(plan) if m.kind == "ResourceQuota"}
    for resource, most in ((NVIDIA, "12"), ("nvidia.com/mig-2g.20gb", "2")):
        requested = f"requests.{resource}"
        assert (hard["gpupool-granted"][requested], hard["gpupool"][requested]) == ("0", most)


def test_what_is_all_borrowed_is_for_jobs_that_may_be_preempted() -> None:
    plan = plan_of(environment({"shared": {"gpus": 0, "upTo": 3}}))
    supply, (tenant,) = supply_of(plan), plan.tenants
    [offer] = offers(plan, supply, tenant, GpuRequest("shared", preemptible=True))
    assert offer.pool == "shared"
    with pytest.raises(UnservableRequest, match="is granted 0; jobs that may be preempted may use up to 12"):
        offers(plan, supply, tenant, GpuRequest("shared", preemptible=False))


@pytest.mark.parametrize("grant", [{"gpus": 0}, {"slices": 0}, {"gpus": 0, "upTo": None}])
def test_a_grant_of_nothing_is_none(grant: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as error:
        plan_of(environment({"shared": grant, "parted": {"profiles": {"3g.40gb": 1, "2g.20gb": 0}}}))
    shared, parted = error.value.findings
    assert "0 x nvidia.com/gpu of pool 'shared' is no grant" in shared.what
    assert "0 x nvidia.com/mig-2g.20gb of pool 'parted' is no grant" in parted.what
    assert "upTo" in shared.remediation


def test_without_it_nothing_is_there_for_it() -> None:
    names = {m.name for m in generate(plan_of(environment({"shared": {"gpus": 1}})))}
    assert not names & {BORROWED_CLASS, "gpupool-granted"}
    same = plan_of(environment({"shared": {"gpus": 1, "upTo": 1}}))
    assert not same.allows_borrowing


@pytest.mark.parametrize(
    ("grant", "most"),
    [
        ({"gpus": 1, "upTo": 2}, {"mig-3g.40gb": 2, "mig-2g.20gb": 4}),
        ({"profiles": {"3g.40gb": 1}, "upTo": {"3g.40gb": 4}}, {"mig-3g.40gb": 4}),
        ({"profiles": {"3g.40gb": 1}, "upTo": {"2g.20gb": 4}}, {"mig-3g.40gb": 1, "mig-2g.20gb": 4}),
    ],
)
def test_it_is_in_the_words_of_the_grant(grant: dict[str, Any], most: dict[str, int]) -> None:
    (tenant,) = plan_of(environment({"parted": grant})).tenants
    assert tenant.up_to == {"parted": {f"nvidia.com/{name}": count for name, count in most.items()}}


NOT_PREEMPTIBLE = [{"name": "only", "value": 1, "level": "low"}]


@pytest.mark.parametrize(
    ("pools", "changes", "message", "hint"),
    [
        ({"shared": {"gpus": 2, "upTo": 1}}, {}, "less than the grant of 8", "remove it"),
        ({"shared": {"gpus": 2, "upTo": 5}}, {}, "upTo is 20 x nvidia.com/gpu", "raise nodes.max"),
        ({"shared": {"slices": 2, "upTo": {"x": 1}}}, {}, "the grant says slices", "a number of slices"),
        ({"parted": {"profiles": {"2g.20gb": 2}, "upTo": 3}}, {}, "the grant says profiles", "{2g.20gb: 8}"),
        ({"parted": {"profiles": {"2g.20gb": 2}, "upTo": {"9g.80gb": 3}}}, {}, "9g.80gb", ""),
        (
            {"shared": {"gpus": 1, "upTo": 2}},
            {"queue": {"enabled": False}},
            "queue.enabled is false",
            "enable the queue",
        ),
        (
            {"shared": {"gpus": 1, "upTo": 2}},
            {"priorities": NOT_PREEMPTIBLE},
            "no priority that a may use is preemptible",
            "preemptible: true",
        ),
        ({"shared": {"gpus": 1, "upTo": 2}}, {"priorities": []}, "is preemptible", "preemptible: true"),
    ],
)
def test_what_could_not_be_lent_is_refused(
    pools: dict[str, Any], changes: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(SpecError) as error:
        plan_of(environment(pools, **changes))
    (finding,) = error.value.findings
    assert finding.path.startswith("tenants[0].pools.")
    assert finding.path.endswith("upTo")
    assert message in finding.what
    assert hint in finding.remediation


@pytest.mark.parametrize("value", [0, "many", [8], {"2g.20gb": 0}])
def test_wrong_values_are_named_at_their_place(value: Any) -> None:
    with pytest.raises(SpecError) as error:
        plan_of(environment({"parted": {"profiles": {"2g.20gb": 2}, "upTo": value}}))
    assert all("upTo" in finding.path for finding in error.value.findings)
    assert not any(
        "a number" in finding.path or "a mapping" in finding.path for finding in error.value.findings
    )
