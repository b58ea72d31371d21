"""Overrides and waivers at their edges."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.findings import SpecError
from tests.environment_files import environment_data, plan_of

WAIVER = {"policy": "pin-images", "owner": "o", "reason": "r", "until": "2027-03-31"}


def findings(**policies: Any) -> list[str]:
    try:
        plan_of(environment_data("local", policies=policies))
    except SpecError as error:
        return [f"{finding.path}: {finding.what}; {finding.remediation}" for finding in error.findings]
    return []


def test_what_exists_may_be_overridden_and_waived() -> None:
    waivers = [WAIVER, {**WAIVER, "namespace": "a"}, {**WAIVER, "namespace": "b"}]
    assert not findings(overrides={"pin-images": "warn"}, waivers=waivers)


@pytest.mark.parametrize(
    ("policies", "place"),
    [
        ({"overrides": {"pin-image": "warn"}}, "policies.overrides.pin-image"),
        ({"waivers": [{**WAIVER, "policy": "pin-image"}]}, "policies.waivers[0].policy"),
    ],
)
def test_an_unknown_policy_is_refused_with_what_was_meant(policies: Any, place: str) -> None:
    (found,) = findings(**policies)
    assert found.startswith(f"{place}: policy 'pin-image' is not defined; did you mean \"pin-images\"?")


def test_one_waiver_for_one_place() -> None:
    (found,) = findings(waivers=[{**WAIVER, "namespace": "a"}, WAIVER, {**WAIVER, "namespace": "a"}])
    assert found.startswith(
        "policies.waivers[2]: policy 'pin-images' is waived for namespace 'a' by waivers[0]"
    )


@pytest.mark.parametrize("policy", ["node-pools-are-bounded", "owned-labels-and-taints-stay"])
def test_no_namespace_where_objects_have_none(policy: str) -> None:
    (found,) = findings(waivers=[{**WAIVER, "policy": policy, "namespace": "a"}])
    assert found.startswith("policies.waivers[0].namespace: ")
    assert not findings(waivers=[{**WAIVER, "policy": policy}])
