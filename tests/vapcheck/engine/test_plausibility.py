"""Names that do not exist: kinds, resources of rules, annotations, metadata of policies."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from vapcheck import Kinds, PolicyFinding, check, from_bodies
from vapcheck.policy.plausibility import unknown_kind

POLICY: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "p", "annotations": {"policies.gpupool.dev/title": "T"}},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ]
        },
        "validations": [{"expression": "true"}],
    },
}


def found(body: dict[str, Any]) -> list[PolicyFinding]:
    report = check([], policies=from_bodies([body], "f"))
    return [one for one in report.findings if one.rule not in ("unbound-policy", "unmatched-policy")]


def changed(**metadata: Any) -> dict[str, Any]:
    body = copy.deepcopy(POLICY)
    body["metadata"] |= metadata
    return body


def ruled(**rule: Any) -> dict[str, Any]:
    body = copy.deepcopy(POLICY)
    body["spec"]["matchConstraints"]["resourceRules"][0] |= rule
    return body


def test_a_good_one() -> None:
    assert found(POLICY) == []


@pytest.mark.parametrize(
    ("body", "path", "said"),
    [
        (changed(anotations={}), "metadata.anotations", "unknown field"),
        (changed(name="Upper_x"), "metadata.name", "is not a name"),
        (changed(name=None), "metadata.name", "is required"),
        (changed(labels={"x": 5}), "metadata.labels.x", ""),
        (POLICY | {"extra": 1}, "extra", "unknown field"),
        (
            changed(annotations={"policies.gpupool.dev/pod-template": "true"}),
            "metadata.annotations[policies.gpupool.dev/pod-template]",
            "did you mean 'pod-templates'?",
        ),
        (
            changed(annotations={"policies.gpupool.dev/pod-templates": "True"}),
            "metadata.annotations[policies.gpupool.dev/pod-templates]",
            "neither",
        ),
    ],
)
def test_refused(body: dict[str, Any], path: str, said: str) -> None:
    findings = found(body)
    assert [(one.rule, one.level) for one in findings] == [("invalid-policy", "deny")], findings
    assert findings[0].path.replace("[x]", ".x") == path
    assert said in findings[0].message


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"resources": ["pod"]}, "did you mean 'pods'?"),
        ({"apiGroups": ["app"], "resources": ["deployments"]}, "unknown group"),
        ({"apiGroups": ["apps"], "resources": ["jobs"]}, "does not exist"),
        ({"apiVersions": ["v2"]}, "pods of core/v2 does not exist"),
    ],
)
def test_rules_that_match_nothing(rule: dict[str, Any], said: str) -> None:
    findings = found(ruled(**rule))
    assert [(one.rule, one.level) for one in findings] == [("unknown-resource", "warn")], findings
    assert said in findings[0].message


@pytest.mark.parametrize(
    "rule",
    [
        {"apiGroups": ["karpenter.sh"], "resources": ["nodepools"]},
        {"apiGroups": ["*"]},
        {"apiVersions": ["*"], "resources": ["pod"]},
        {"resources": ["*"]},
        {"resources": ["pods", "no-such"]},
        {"resources": ["*/exec"]},
    ],
)
def test_rules_that_may_match(rule: dict[str, Any]) -> None:
    assert found(ruled(**rule)) == []


@pytest.mark.parametrize(
    ("api_version", "kind", "said"),
    [
        ("apps/v1", "Deploymnt", "did you mean 'Deployment'?"),
        ("extensions/v1beta1", "Deployment", "Deployment is in apps/v1"),
        ("v1", "Job", "Job is in batch/v1"),
        ("apps/v1", "Nonsense", "correct apiVersion and kind"),
        ("apps/v1", "Deployment", None),
        ("example.com/v1", "Deploymnt", None),
        ("karpenter.sh/v1", "NodePool", None),
    ],
)
def test_kinds(api_version: str, kind: str, said: str | None) -> None:
    document = from_bodies([{"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}], "f")[0]
    message = unknown_kind(document, Kinds.builtin())
    if said is None:
        assert message is None
    else:
        assert message is not None
        assert said in message
    findings = check([document]).findings
    assert bool([one for one in findings if one.rule == "unknown-kind" and one.level == "deny"]) == bool(said)
