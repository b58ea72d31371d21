"""What a stack's objects and the folder's policies come to, by the real engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.policy_pack.judgement import Violation, shipped_policies, violations
from gpupool.policy_pack.resources import StackObject, Unjudged
from gpupool.policy_pack.stack_policies import VERSION_VARIABLE, stack_policies

GROUP = "admissionregistration.k8s.io/v1"
Object = dict[str, Any]


def policy(expression: str = "!('debug' in object.data)") -> Object:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    return {
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-debugging", "annotations": {"policies.gpupool.dev/fix": "leave it\nout"}},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression, "message": "debug is set"}],
        },
    }


def binding(action: str, **more: Any) -> Object:
    return {
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-debugging"},
        "spec": {"policyName": "no-debugging", "validationActions": [action], **more},
    }


def settings(namespace: str | None = "shop") -> Object:
    metadata = {"name": "settings", **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"debug": "yes"}}


def stack(*bodies: Object) -> list[StackObject]:
    return [StackObject(f"urn:{body['kind']}", body) for body in bodies]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of policies as ours is, fixtures included."""
    (tmp_path / "one.yaml").write_text(yaml.safe_dump_all([policy(), binding("Deny")]))
    fixtures = tmp_path / "fixtures" / "no-debugging"
    fixtures.mkdir(parents=True)
    (fixtures / "bad.yaml").write_text(yaml.safe_dump(settings()))
    return tmp_path


@pytest.mark.parametrize("namespace", ["shop", None])
def test_the_folders_policies_hold_for_any_stack(folder: Path, namespace: str | None) -> None:
    where = f"{namespace}/" if namespace else ""
    text = f"no-debugging: ConfigMap {where}settings data: debug is set\nfix: leave it out"
    found = violations(stack(settings(namespace)), [], shipped_policies(folder))
    assert found == [Violation("deny", text, "urn:ConfigMap")]


def test_fixtures_are_no_policies(folder: Path) -> None:
    assert shipped_policies(folder) == [folder / "one.yaml"]


def test_the_stacks_own_binding_wins(folder: Path) -> None:
    found = violations(stack(settings(), binding("Warn")), [], shipped_policies(folder))
    assert [(one.level, one.urn) for one in found] == [("warn", "urn:ConfigMap")]


def test_a_waiver_of_the_stack_holds(folder: Path) -> None:
    spared = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["shop"]}
    waived = binding("Deny", matchResources={"namespaceSelector": {"matchExpressions": [spared]}})
    assert violations(stack(settings(), waived), [], shipped_policies(folder)) == []


def test_labels_of_the_stacks_namespaces_are_known(folder: Path) -> None:
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"strict": "no"}}}
    strict = binding("Deny", matchResources={"namespaceSelector": {"matchLabels": {"strict": "yes"}}})
    files = shipped_policies(folder)
    assert violations(stack(settings(), team, strict), [], files) == []
    team["metadata"]["labels"]["strict"] = "yes"
    assert len(violations(stack(settings(), team, strict), [], files)) == 1


def test_a_policy_that_does_not_compile_is_never_a_silent_pass(folder: Path) -> None:
    (found,) = violations(stack(policy("object.data."), binding("Deny"), settings()), [], [])
    assert (found.level, found.urn) == ("deny", "urn:ValidatingAdmissionPolicy")


def test_a_file_that_is_not_yaml_is_reported(folder: Path) -> None:
    (folder / "two.yaml").write_text("a: [")
    found = violations([], [], shipped_policies(folder))
    assert [one.level for one in found] == ["deny"]
    assert "two.yaml:2:1: " in found[0].message


def test_what_can_not_be_judged_is_a_warning() -> None:
    assert violations([], [Unjudged("urn:x", "too early")], []) == [
        Violation("warn", "not judged: too early", "urn:x")
    ]


def test_the_stack_is_judged_at_the_clusters_minor() -> None:
    objects = stack(policy("semver('1.0.0').major() == 1"), binding("Deny"), settings())
    assert violations(objects, [], [], "1.34") == []
    (refused,) = violations(objects, [], [], "1.33")
    assert refused.level == "deny"
    assert "Kubernetes 1.34 and newer support it" in refused.message
    notes = [one.message for one in violations(objects, [], [], "1.32") if "unknown-minor" in one.message]
    assert len(notes) == 1


def test_a_version_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv(VERSION_VARIABLE, "latest")
    with pytest.raises(ValueError, match="'latest' is not a Kubernetes version"):
        stack_policies(folder)
