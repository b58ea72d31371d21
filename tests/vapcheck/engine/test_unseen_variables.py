"""A refusal of a variable that can't be seen says why it can't, and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vapcheck import Kinds, from_bodies
from vapcheck.fixtures.suites import kinds_of, read_suites, run
from vapcheck.policy.policy_set import read_policies


def policy(variables: dict[str, str], condition: str = "true", validation: str = "true") -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "c", "expression": condition}],
            "variables": [{"name": name, "expression": text} for name, text in variables.items()],
            "validations": [{"expression": validation}],
        },
    }


def refused(body: dict[str, Any]) -> tuple[str, str]:
    """Path and fix of the one refusal."""
    found = read_policies(from_bodies([body], "f")).findings
    (finding,) = [finding for finding in found if finding.rule == "invalid-policy"]
    assert "undefined field" in finding.message
    return finding.path, finding.remediation


ORDER = "a variable sees only those above it in spec.variables"


@pytest.mark.parametrize(
    ("variables", "fix"),
    [
        ({"a": "variables.b", "b": "1"}, f"Move the variable 'b' above 'a': {ORDER}."),
        ({"a": "has(variables.b)", "b": "1"}, f"Move the variable 'b' above 'a': {ORDER}."),
        (
            {"a": "variables.b", "b": "'variables.a' // variables.a"},
            f"Move the variable 'b' above 'a': {ORDER}.",
        ),
        ({"a": "variables.a"}, "reads itself (a -> a)"),
        ({"a": "variables.b", "b": "variables.a"}, "reads itself (a -> b -> a)"),
        ({"a": "variables.b", "b": "variables.c + variables.b", "c": "variables.a"}, "(a -> b -> c -> a)"),
        ({"a": "variables.b", "b": "variables.c", "c": "variables.b"}, "Move the variable 'b' above 'a'"),
        ({"limits": "1", "b": "variables.limit"}, "There is no variable 'limit'; did you mean 'limits'?"),
    ],
)
def test_variables(variables: dict[str, str], fix: str) -> None:
    path, said = refused(policy(variables))
    assert path.startswith("spec.variables[")
    assert fix in said


def test_circles_say_the_order_too() -> None:
    assert ORDER in refused(policy({"a": "variables.b", "b": "variables.a"}))[1]


def test_validations() -> None:
    path, said = refused(policy({"a": "1", "b": "2"}, validation="variables.unknown == 1"))
    assert path == "spec.validations[0].expression"
    assert said == "Add a variable 'unknown' to spec.variables, or correct the name; defined: a, b."
    assert refused(policy({}, validation="variables.x == 1"))[1].endswith("none is defined.")


def test_match_conditions_see_none() -> None:
    path, said = refused(policy({"a": "true"}, condition="variables.a"))
    assert path == "spec.matchConditions[0].expression"
    assert said.startswith("Match conditions can't use variables; replace variables.a ")


def test_other_fields_are_left_alone() -> None:
    assert refused(policy({"nope": "1"}, validation="request.nope == 1"))[1] == ""


def test_policy_test_says_it_too(tmp_path: Path) -> None:
    body = policy({"a": "variables.b", "b": "1"})
    (tmp_path / "p.json").write_text(json.dumps(body), encoding="utf-8")
    (suite,) = read_suites(tmp_path)[0]
    reported = [failure.message for failure in run(suite, kinds_of(suite, Kinds.builtin()))]
    assert any(message.endswith(f"; Move the variable 'b' above 'a': {ORDER}.") for message in reported), (
        reported
    )
