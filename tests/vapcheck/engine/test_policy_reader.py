"""Policies and bindings that the API server would refuse are refused, each fault with its path."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from vapcheck import from_bodies
from vapcheck.policy.reader import read_binding, read_policy

POLICY: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {
        "name": "p",
        "annotations": {"policies.gpupool.dev/title": "T", "policies.gpupool.dev/pod-templates": "true"},
    },
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods", "pods/exec"],
                }
            ]
        },
        "matchConditions": [{"name": "c", "expression": "true"}],
        "variables": [{"name": "v", "expression": "1"}],
        "validations": [{"expression": "true", "message": " m ", "reason": "Forbidden"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "'x'"}],
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    },
}
BINDING: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "b"},
    "spec": {
        "policyName": "p",
        "validationActions": ["Deny", "Audit"],
        "paramRef": {"name": "n", "namespace": "s", "parameterNotFoundAction": "Deny"},
        "matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}},
    },
}


def changed(body: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with the value at a dotted path replaced; numbers are list indexes, None removes."""
    copied = copy.deepcopy(body)
    where: Any = copied["spec"]
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parents:
        where = where[part]
    if value is None:
        del where[last]
    else:
        where[last] = value
    return copied


def test_everything_is_read() -> None:
    policy, problems = read_policy(from_bodies([POLICY], "f")[0])
    assert not problems
    assert policy.name == "p"
    assert policy.fails_closed
    assert policy.match.equivalent
    assert policy.match.rules[0].resources == (("pods", ""), ("pods", "exec"))
    assert policy.validations[0].message == "m"
    assert policy.validations[0].reason == "Forbidden"
    assert policy.text("title") == "T"
    assert policy.judges_pod_templates
    assert policy.param_kind == ("v1", "ConfigMap")
    assert [row.path for row in (*policy.conditions, *policy.variables, *policy.audit_annotations)] == [
        "spec.matchConditions[0].expression",
        "spec.variables[0].expression",
        "spec.auditAnnotations[0].valueExpression",
    ]
    binding, problems = read_binding(from_bodies([BINDING], "f")[0])
    assert not problems
    assert binding.actions == ("Deny", "Audit")
    assert binding.param_ref is not None
    assert binding.param_ref.deny_when_missing


@pytest.mark.parametrize(
    ("path", "value", "where", "said"),
    [
        ("matchConstraints", None, "spec.matchConstraints", "is required"),
        ("matchConstraints.resourceRules", [], "spec.matchConstraints.resourceRules", "at least one rule"),
        ("matchConstraints.resourceRules.0.operations", ["LIST"], "operations[0]", "none of CREATE"),
        ("matchConstraints.resourceRules.0.operations", ["*", "CREATE"], "operations", "beside '*'"),
        ("matchConstraints.resourceRules.0.apiGroups", [], "apiGroups", "at least one item"),
        ("matchConstraints.resourceRules.0.apiVersions", [1], "apiVersions[0]", "quote it"),
        ("matchConstraints.resourceRules.0.resources", ["*", "pods"], "resources", "beside '*'"),
        ("matchConstraints.resourceRules.0.resources", ["*/*", "pods"], "resources", "beside '*/*'"),
        ("matchConstraints.resourceRules.0.scope", "All", "scope", "none of *"),
        ("matchConstraints.resourceRules.0.verbs", ["get"], "verbs", "unknown field"),
        ("matchConstraints.matchPolicy", "Some", "matchPolicy", "none of Equivalent"),
        (
            "matchConstraints.namespaceSelector",
            {"matchLabels": {"a": 1}},
            "namespaceSelector.matchLabels[a]",
            "quote it",
        ),
        ("matchConditions.0.name", None, "spec.matchConditions[0].name", "is required"),
        ("matchConditions.0.name", "a b", "spec.matchConditions[0].name", "is not a name"),
        ("auditAnnotations.0.key", "a/b", "spec.auditAnnotations[0].key", "no prefix"),
        ("paramKind.kind", None, "spec.paramKind.kind", "is required"),
        ("paramKind.apiVersion", "a/", "spec.paramKind.apiVersion", "the version '' is none"),
        ("matchConstraints", {}, "spec.matchConstraints.resourceRules", "at least one rule"),
        (
            "matchConstraints.resourceRules.0.resources",
            ["pods/*", "pods/status"],
            "resources[1]",
            "remove it",
        ),
        ("matchConstraints.resourceRules.0.resourceNames", ["a", "a"], "resourceNames[1]", "appears twice"),
        ("validations.0.message", " ", "spec.validations[0].message", "remove it"),
        ("matchConditions.0.expression", " ", "spec.matchConditions[0].expression", "blank"),
        ("variables.0.name", "a-b", "spec.variables[0].name", "not a CEL identifier"),
        ("variables.0.name", "while", "spec.variables[0].name", "not a CEL identifier"),
        ("validations.0.expression", None, "spec.validations[0].expression", "is required"),
        ("validations.0.message", "a\nb", "spec.validations[0].message", "line breaks"),
        ("validations.0.reason", "Bad", "spec.validations[0].reason", "none of Forbidden"),
        ("validations.0", "true", "spec.validations[0]", "expected a mapping"),
        ("validations", "true", "spec.validations", "expected a list"),
        ("failurePolicy", "Maybe", "spec.failurePolicy", "none of Fail, Ignore"),
        ("auditAnnotations.0.key", None, "spec.auditAnnotations[0].key", "is required"),
        ("validation", [], "spec.validation", "unknown field"),
    ],
)
def test_policies_refused(path: str, value: Any, where: str, said: str) -> None:
    _, problems = read_policy(from_bodies([changed(POLICY, path, value)], "f")[0])
    assert any(place.endswith(where) and said in text for place, text in problems), problems


@pytest.mark.parametrize(
    ("path", "value", "where", "said"),
    [
        ("policyName", None, "spec.policyName", "is required"),
        ("validationActions", [], "spec.validationActions", "at least one of"),
        ("validationActions", ["Deny", "Warn"], "spec.validationActions", "exclude each other"),
        ("validationActions", ["Deny", "Deny"], "spec.validationActions[1]", "appears twice"),
        ("validationActions", ["deny"], "spec.validationActions[0]", "none of Deny"),
        ("policyName", "A b", "spec.policyName", "lower-case"),
        ("paramRef.name", "a/b", "spec.paramRef.name", "without '/'"),
        ("paramRef.selector", {}, "spec.paramRef", "exactly one of"),
        ("paramRef.name", None, "spec.paramRef", "exactly one of"),
        ("paramRef.parameterNotFoundAction", None, "parameterNotFoundAction", "choose Allow or Deny"),
        ("matchResources.rules", [], "spec.matchResources.rules", "unknown field"),
    ],
)
def test_bindings_refused(path: str, value: Any, where: str, said: str) -> None:
    _, problems = read_binding(from_bodies([changed(BINDING, path, value)], "f")[0])
    assert any(place.endswith(where) and said in text for place, text in problems), problems
