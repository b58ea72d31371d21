"""What a whole check says: what matched nothing and why, namespaces that are not given, assumed scopes."""

from __future__ import annotations

from typing import Any

import pytest

from vapcheck import PolicyFinding, check, from_bodies, read_text

OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: payments}\n"
WIDGET = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n"
TEAM = {"matchLabels": {"team": "x"}}


def policies(
    rule: dict[str, Any] | None = None,
    expression: str = "false",
    binding: dict[str, Any] | None = None,
    **spec: Any,
) -> str:
    """A policy that denies ConfigMaps, and its binding."""
    known = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    constraints = {"resourceRules": [known | (rule or {})], **spec.pop("matchConstraints", {})}
    group = (
        "apiVersion: admissionregistration.k8s.io/v1\nmetadata: {name: p}\nkind: ValidatingAdmissionPolicy"
    )
    body = {"matchConstraints": constraints, "validations": [{"expression": expression}], **spec}
    bound = {"policyName": "p", "validationActions": ["Deny"], "matchResources": binding or {}}
    return f"{group}\nspec: {body}\n---\n{group}Binding\nspec: {bound}\n"


def found(objects: str, given: str, **asked: Any) -> list[PolicyFinding]:
    documents, wrong = read_text(objects, "objects.yaml")
    guards, wrong_too = read_text(given, "guards.yaml")
    assert not wrong + wrong_too
    return list(check(documents, policies=guards, **asked).findings)


def reported(objects: str, given: str, **asked: Any) -> dict[str, str]:
    return {finding.rule: finding.message for finding in found(objects, given, **asked)}


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        (policies({"resources": ["secrets"]}), "no object has a kind that the rules name for CREATE"),
        (
            policies({"resources": ["pods/exec", "pods/attach"]}),
            "the rules name only subresources, pods/attach, pods/exec; use --subresource pods/attach",
        ),
        (policies({"operations": ["DELETE"]}), "no object has a kind that the rules name for CREATE"),
        (
            policies(matchConstraints={"objectSelector": TEAM}),
            "selectors or resourceNames of the policy exclude everything",
        ),
        (policies(binding={"objectSelector": TEAM}), "matchResources of the bindings exclude everything"),
        (
            policies(matchConditions=[{"name": "no", "expression": "false"}]),
            "matchConditions exclude everything",
        ),
        (
            policies(binding={"namespaceSelector": TEAM}),
            "selected by labels of a missing namespace, payments",
        ),
    ],
)
def test_why_a_policy_matched_nothing(given: str, cause: str) -> None:
    assert reported(OBJECT, given)["unmatched-policy"] == f"matched no object: {cause}"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (policies(binding={"namespaceSelector": TEAM}), "1 binding selects by its labels"),
        (policies(matchConstraints={"namespaceSelector": TEAM}), "1 binding selects by its labels"),
        (policies(expression="has(namespaceObject.spec)"), "1 policy reads namespaceObject"),
    ],
)
def test_a_namespace_that_is_not_given(given: str, said: str) -> None:
    (finding,) = [one for one in found(OBJECT, given) if one.rule == "unknown-namespace"]
    assert (finding.level, finding.file, finding.line) == ("warn", "objects.yaml", 1)
    assert finding.message == f"namespace payments is missing; {said}"
    assert "--namespace payments --namespace-labels" in finding.remediation
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: payments, labels: {team: x}}\n---\n"
    assert "unknown-namespace" not in reported(OBJECT, namespace + given)


@pytest.mark.parametrize("name", ["payments", "other"])
def test_a_name_needs_no_namespace(name: str) -> None:
    """All that is known of one that isn't given decides here."""
    labels = {"kubernetes.io/metadata.name": name}
    selector = {"matchLabels": labels | ({"team": "x"} if name == "other" else {})}
    assert "unknown-namespace" not in reported(OBJECT, policies(binding={"namespaceSelector": selector}))


def test_objects_without_a_namespace_are_where_the_caller_says() -> None:
    given = policies(binding={"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}})
    bare = OBJECT.replace(", namespace: payments", "")
    (denied,) = found(bare, given, namespace="shop")
    assert str(denied.object) == "ConfigMap shop/a"
    assert (denied.rule, denied.line) == ("p", 1)
    assert "p" not in reported(OBJECT, given, namespace="shop"), "an object's own namespace stays"
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"
    rule = {"resources": ["nodes"]}
    assert "p" in reported(node, policies(rule, "has(object.metadata.namespace)"), namespace="shop")


def test_a_custom_resource_without_its_definition_is_taken_for_namespaced() -> None:
    rule = {"apiGroups": ["example.com"], "resources": ["widgets"], "scope": "Namespaced"}
    given = policies(rule, "object.metadata.namespace != 'default' || request.namespace != 'default'")
    findings = {one.rule: one for one in found(WIDGET, given)}
    assert findings["p"].level == "deny"
    assert findings["assumed-namespaced"].level == "audit"
    assert "CustomResourceDefinition of Widget (example.com/v1) is missing" in (
        findings["assumed-namespaced"].message
    )
    assert "assumed-namespaced" not in reported(WIDGET, policies()), "it made no difference"
    assert "assumed-namespaced" not in reported(WIDGET.replace("name: w", "name: w, namespace: a"), given)


def test_policies_without_a_binding_can_be_judged() -> None:
    given = policies().partition("---\n")[0]
    unbound = next(one for one in found(OBJECT, given) if one.rule == "unbound-policy")
    assert "--bind deny" in unbound.remediation
    assert [(one.rule, one.level) for one in found(OBJECT, given, bind="Warn")] == [("p", "warn")]
    assert [one.level for one in found(OBJECT, policies(), bind="Warn")] == ["deny"], "it has its own"


def test_a_policy_without_a_binding_gets_the_parameters_that_are_given() -> None:
    kind = {"apiVersion": "v1", "kind": "Secret"}
    given = policies(expression="params.data.size() > 1", paramKind=kind).partition("---\n")[0]
    secret: dict[str, Any] = {**kind, "metadata": {"name": "s", "namespace": "guards"}, "data": {"a": "YQ=="}}
    (parameter,) = from_bodies([secret], "params.yaml")
    documents, _ = read_text(OBJECT, "objects.yaml")
    guards, _ = read_text(given, "guards.yaml")
    (denied,) = check(documents, policies=[*guards, parameter], bind="Deny").findings
    assert denied.message == "failed expression: params.data.size() > 1"
    (missing,) = check(documents, policies=guards, bind="Deny").findings
    assert "no params found" in missing.message


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v3"])
def test_versions_that_the_server_does_not_serve(version: str) -> None:
    given = policies().replace("admissionregistration.k8s.io/v1", f"admissionregistration.k8s.io/{version}")
    wrong = [one for one in found(OBJECT, given) if one.path == "apiVersion"]
    assert {(one.rule, one.level) for one in wrong} == {
        ("invalid-policy", "deny"),
        ("invalid-binding", "deny"),
    }
    assert "is not served by Kubernetes 1.36; write admissionregistration.k8s.io/v1" in wrong[0].message


def test_a_mutating_policy_is_said_not_to_be_applied() -> None:
    mutating = (
        policies().partition("---\n")[0].replace("Validating", "Mutating").replace("name: p", "name: m")
    )
    (note,) = [one for one in found(OBJECT, f"{policies()}---\n{mutating}") if one.rule != "p"]
    assert (note.rule, note.level, str(note.object)) == (
        "mutating-policy",
        "audit",
        "MutatingAdmissionPolicy m",
    )
