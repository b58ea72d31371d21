"""Two states to one report: what cannot be read, what is unchanged, what policy says."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.findings import UsageError
from gpupool.policy import gate as policy_gate
from gpupool.review.report.build import build
from gpupool.review.report.git_states import ProjectFiles
from tests.review.report.plans import EKS, STATIC, TODAY, Data, change, edited, report, snapshot, state
from vapcheck.policy.compiled_policy import Compiler

TRIAL = {**EKS, "metadata": {"name": "trial"}}


def broken(data: Data) -> None:
    data["pools"][0]["gpu"] = "a100"


def test_an_invalid_head_is_reported_with_its_place(tmp_path: Path) -> None:
    made = report(tmp_path, EKS, broken)
    (environment,) = made.environments
    assert not made.valid
    (note,) = environment.invalid.after
    assert note.place.startswith("environments/trial.yaml:")
    assert (note.category, note.path) == ("invalid", "pools[0].gpu")
    assert "a100-40gb" in note.remediation
    assert (environment.pools, environment.effects, environment.cost.after) == ((), (), None)
    assert [risk.code for risk in environment.risks] == ["invalid"]


def test_an_invalid_base_is_reported_and_the_head_is_fine(tmp_path: Path) -> None:
    made = build(
        snapshot(tmp_path, "base", trial=edited(TRIAL, broken)),
        snapshot(tmp_path, "head", trial=TRIAL),
        [],
        TODAY,
        20,
    )
    assert made.valid
    assert made.environments[0].invalid.before
    assert made.environments[0].change == "changed"


def test_invalid_before_and_after_alike_is_no_change_and_not_valid(tmp_path: Path) -> None:
    state = snapshot(tmp_path, "base", trial=edited(TRIAL, broken))
    made = build(state, state, [], TODAY, 20)
    assert (made.valid, made.environments[0].change) == (False, "unchanged")


def test_a_file_that_is_no_yaml(tmp_path: Path) -> None:
    state = snapshot(tmp_path, "head", trial=TRIAL)
    torn = dataclasses.replace(state, environments={"trial": b"a: [\xff"})
    (note, *_) = build(state, torn, [], TODAY, 20).environments[0].invalid.after
    assert "UTF-8" in note.what


def test_unknown_environments_are_wrong_use(tmp_path: Path) -> None:
    state = snapshot(tmp_path, "base", trial=TRIAL)
    with pytest.raises(UsageError, match="no environment 'other' at base or base; environments: trial"):
        build(state, state, ["other"], TODAY, 20)


def test_only_the_named_ones_are_reported(tmp_path: Path) -> None:
    one, other = ({**EKS, "metadata": {"name": name}} for name in ("one", "other"))
    made = build(
        snapshot(tmp_path, "base", one=one, other=other),
        snapshot(tmp_path, "head", one=edited(one, lambda d: d["pools"].pop()), other=other),
        ["one"],
        TODAY,
        20,
    )
    assert [each.name for each in made.environments] == ["one"]


def test_what_two_environments_both_own(tmp_path: Path) -> None:
    one = {**STATIC, "metadata": {"name": "one"}}
    other = {**STATIC, "metadata": {"name": "other"}, "cluster": {"platform": "static", "name": "other"}}
    alike = edited(other, lambda data: data["cluster"].update(name="rack"))
    made = build(
        snapshot(tmp_path, "base", one=one, other=other),
        snapshot(tmp_path, "head", one=one, other=alike),
        [],
        TODAY,
        20,
    )
    assert any("one and other are both for cluster 'rack'" in note.what for note in made.together.new)
    assert made.together.remaining, "a node that both name was wrong before, too"
    back = build(
        snapshot(tmp_path, "base", one=one, other=alike),
        snapshot(tmp_path, "head", one=one, other=other),
        [],
        TODAY,
        20,
    )
    assert back.together.fixed == made.together.new


def own_policy(resource: str, message: str) -> bytes:
    """A policy of a project's own that denies every object of a resource; `message` is a CEL expression."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": [resource], "operations": ["CREATE"]}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "own"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "messageExpression": message}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "own"},
        "spec": {"policyName": "own", "validationActions": ["Deny"]},
    }
    return yaml.safe_dump_all([policy, binding]).encode()


def with_policy(state: ProjectFiles, text: bytes) -> ProjectFiles:
    (state.root / "policies").mkdir(parents=True, exist_ok=True)
    (state.root / "policies" / "own.yaml").write_bytes(text)
    return dataclasses.replace(state, policies={"own.yaml": text})


@pytest.mark.parametrize(
    ("resource", "message", "edit"),
    [
        ("resourcequotas", "object.spec.hard.map(k, object.spec.hard[k]).join()", "quota"),
        ("configmaps", "string(object.metadata.name)", "replicas"),
    ],
)
def test_a_finding_is_known_by_rule_object_and_path(
    tmp_path: Path, resource: str, message: str, edit: str
) -> None:
    """Neither by its words nor by a name that changes with the content."""

    def change(data: Data) -> None:
        if edit == "quota":
            data["tenants"][0]["pools"]["shared"]["gpus"] = 4
        else:
            data["pools"][0]["sharing"]["replicas"] = 5

    policy = own_policy(resource, message)
    base = with_policy(snapshot(tmp_path, "base", trial=TRIAL), policy)
    head = with_policy(snapshot(tmp_path, "head", trial=edited(TRIAL, change)), policy)
    (environment,) = build(base, head, [], TODAY, 20).environments
    assert (environment.findings.new, environment.findings.fixed) == ((), ())
    assert environment.findings.remaining >= 1


def test_policies_beside_the_environments_are_those_of_each_state(tmp_path: Path) -> None:
    """A policy of the project's own that is new denies what was there before."""
    base = snapshot(tmp_path / "base", "base", trial=TRIAL)
    head = with_policy(
        snapshot(tmp_path / "head", "head", trial=TRIAL), own_policy("resourcequotas", "'no quotas'")
    )
    forth, back = build(base, head, [], TODAY, 20), build(head, base, [], TODAY, 20)
    (environment,) = forth.environments
    assert environment.change == "changed"
    assert {note.code for note in environment.findings.new} >= {"own"}
    assert any("new denial" in risk.what for risk in environment.risks)
    (environment,) = back.environments
    assert environment.findings.fixed == forth.environments[0].findings.new
    assert any("policy own is removed" in risk.what for risk in environment.risks)


def test_a_broken_policy_file_is_a_finding(tmp_path: Path) -> None:
    base = snapshot(tmp_path / "base", "base", trial=TRIAL)
    head = with_policy(snapshot(tmp_path / "head", "head", trial=TRIAL), b"kind: Pod")
    (environment,) = build(base, head, [], TODAY, 20).environments
    (note,) = environment.invalid.after
    assert note.what.startswith("policies/own.yaml: document 1: ")
    assert str(tmp_path) not in note.what


def test_settings_that_generate_nothing_are_reported(tmp_path: Path) -> None:
    environment = change(tmp_path, EKS, lambda data: data.update(queue={"retries": 5}))
    (field,) = environment.settings
    assert (field.name, field.before, field.after) == ("queue.retries", "3", "5")
    assert environment.change == "changed"
    assert [effect.what for effect in environment.effects] == ["no node is affected"]


def test_what_the_queue_does_touches_no_node(tmp_path: Path) -> None:
    environment = change(tmp_path, EKS, lambda data: data.update(queue={"ordering": "fifo"}))
    (field,) = environment.settings
    assert (field.name, field.before, field.after) == ("queue.ordering", "fair-share", "fifo")
    assert [(effect.kind, effect.pods) for effect in environment.effects] == [("stay", "kept")]


def test_a_cluster_that_does_not_answer_is_a_note(tmp_path: Path) -> None:
    def unreachable(*_: Any) -> Any:
        raise UsageError("no context ml")

    environment = change(tmp_path, EKS, lambda data: data["pools"].pop(), clusters=unreachable)
    assert environment.live is None
    assert environment.notes[-1] == "Could not ask the cluster for running pods: no context ml"


def test_one_compiler_for_all_judges_as_one_for_each() -> None:
    compiler = Compiler()
    for data in (EKS, STATIC, EKS):
        both = state(data)
        alone = policy_gate.judge(both.plan, TODAY, bundle=both.bundle)
        assert policy_gate.judge(both.plan, TODAY, bundle=both.bundle, compiler=compiler) == alone
