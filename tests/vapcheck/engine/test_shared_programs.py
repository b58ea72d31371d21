"""What two policies have in common is compiled and evaluated once, and still costs each of them the same."""

from __future__ import annotations

from typing import Any

import pytest

from vapcheck import from_bodies
from vapcheck.cel.errors import EvaluationError
from vapcheck.cel.program import Budget, Scope
from vapcheck.policy.compiled_policy import CompiledPolicy, Compiler
from vapcheck.policy.reader import read_policy


def compiled(
    compiler: Compiler, name: str, *variables: str, validation: str = "variables.v0 == 1"
) -> CompiledPolicy:
    body: dict[str, Any] = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ]
            },
            "variables": [{"name": f"v{n}", "expression": text} for n, text in enumerate(variables)],
            "validations": [{"expression": validation}],
        },
    }
    policy, problems = read_policy(from_bodies([body], "f")[0])
    assert not problems
    outcome = compiler.compile(policy)
    assert isinstance(outcome, CompiledPolicy), outcome
    return outcome


def test_common_variables_are_one_program() -> None:
    compiler = Compiler()
    first = compiled(compiler, "a", "object.x", "variables.v0 + 1")
    second = compiled(compiler, "b", "object.x", "variables.v0 + 1")
    third = compiled(compiler, "c", "object.y", "variables.v0 + 1")
    assert first.variables["v0"] is second.variables["v0"]
    assert first.variables["v1"] is second.variables["v1"]
    assert third.variables["v1"] is not first.variables["v1"], "it reads another v0"


def test_one_evaluation_for_all_policies() -> None:
    compiler = Compiler()
    policies = [compiled(compiler, name, "object.x.map(a, a + 1).size()") for name in "abc"]
    base = Scope({"object": {"x": list(range(50))}})
    spent = []
    for policy in policies:
        budget = Budget(10_000)
        scope = base.with_variables(policy.variables, budget=budget)
        assert policy.validations[0].program.evaluate(scope) is False
        spent.append(10_000 - budget.remaining)
    assert spent[0] > 50, "the list was gone through"
    assert len(set(spent)) == 1, "each policy pays as if it were alone"
    program = policies[0].variables["v0"]
    assert program.shared
    assert base.outcome(program) is base.outcome(program)


def test_a_common_error_is_each_policys_own() -> None:
    compiler = Compiler()
    policies = [compiled(compiler, name, "object.absent") for name in "ab"]
    base = Scope({"object": {}})
    for policy in policies:
        scope = base.with_variables(policy.variables)
        with pytest.raises(
            EvaluationError, match='composited variable "v0" fails to evaluate: no such key: absent'
        ):
            policy.validations[0].program.evaluate(scope)


def test_what_reads_variables_is_not_kept() -> None:
    compiler = Compiler()
    policies = [compiled(compiler, name, "object.x", validation="variables.v0 == 1") for name in "ab"]
    program = policies[0].validations[0].program
    assert program is policies[1].validations[0].program
    assert not program.shared
