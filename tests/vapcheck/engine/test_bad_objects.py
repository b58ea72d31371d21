"""Objects that the server can't read: a denial with its place for each, whatever else looks into them."""

from __future__ import annotations

import pytest

from vapcheck import Kinds, PolicyFinding, check, read_text
from vapcheck.judging import judge

PODS = "{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}"
POLICY = f"""
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: p}}
spec:
  matchConstraints: {{resourceRules: [{PODS}]}}
  validations:
  - expression: authorizer.group('').resource('pods').namespace('default').check('get').allowed()
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: p}}
spec:
  policyName: p
  validationActions: [Deny]
  matchResources: {{namespaceSelector: {{matchLabels: {{a: b}}}}, objectSelector: {{matchLabels: {{a: b}}}}}}
---
apiVersion: v1
kind: Namespace
metadata: {{name: default, labels: {{a: b}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: good, labels: {{a: b}}}}
spec: {{containers: [{{name: c, image: x}}]}}
---
"""
FIRST = POLICY.count("\n") + 1
RBAC = "rbac.authorization.k8s.io/v1"


def one(kind: str, metadata: str, rest: str = "", version: str = "v1") -> str:
    return f"{{apiVersion: {version}, kind: {kind}, metadata: {{{metadata}}}, {rest}}}\n"


def pod(metadata: str, container: str = "image: x") -> str:
    return one("Pod", metadata, f"spec: {{containers: [{{name: c, {container}}}]}}")


def role(rest: str) -> str:
    """A role and, to make the authorizer look into it, a binding."""
    bound = "roleRef: {kind: ClusterRole, name: r}, subjects: [{kind: User, name: gpupool-check}]"
    return (
        f"{one('ClusterRole', 'name: r', rest, RBAC)}---\n{one('ClusterRoleBinding', 'name: x', bound, RBAC)}"
    )


JUDGED = {
    "limit is a list": pod("name: x", "resources: {limits: {memory: []}}"),
    "limit is a map": pod("name: x", "resources: {limits: {memory: {a: b}}}"),
    "prefix is a number": pod("generateName: 5"),
    "labels of a pod": pod("name: x, labels: [a]"),
    "a label of a pod": pod("name: x, labels: {a: [b]}"),
    "namespace of a pod": pod("name: x, namespace: [a]"),
}
LOOKED_INTO = {
    "labels of a namespace": one("Namespace", "name: default, labels: [a]"),
    "a label of a namespace": one("Namespace", "name: default, labels: {a: {}}"),
    "name of a namespace": one("Namespace", "name: {a: b}"),
    "name of an account": one("ServiceAccount", "name: [a]"),
    "LimitRange is a list": one("LimitRange", "name: l", "spec: [x]"),
    "limits are a number": one("LimitRange", "name: l", "spec: {limits: 5}"),
    "namespace is a map": one("LimitRange", "name: l, namespace: {a: b}", "spec: {limits: []}"),
    "subjects are names": one("RoleBinding", "name: x", "subjects: [alice], roleRef: {name: r}", RBAC),
    "role is a name": one("ClusterRoleBinding", "name: x", "roleRef: r, subjects: []", RBAC),
    "rules are a map": role("rules: {a: b}"),
    "aggregation is a name": role("aggregationRule: x"),
    "selectors are names": role("aggregationRule: {clusterRoleSelectors: [x]}"),
}
BAD = JUDGED | LOOKED_INTO
OLD = one("ClusterRoleBinding", "name: x", "subjects: [alice], roleRef: r", RBAC + "beta1")


def denials(text: str, *, context: str = "") -> list[PolicyFinding]:
    documents, wrong = read_text(text, "bad.yaml")
    around, more = read_text(context, "context.yaml")
    assert not wrong + more
    return [row for row in check(documents, policies=around).findings if row.level == "deny"]


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_each_is_a_finding_with_its_place(bad: str) -> None:
    found = denials(POLICY + bad)
    reported = [finding for finding in found if finding.rule == "unreadable-field"]
    assert [(finding.file, finding.line) for finding in reported] == [("bad.yaml", FIRST)]
    assert reported[0].path
    assert "not-judged" not in {finding.rule for finding in found}


@pytest.mark.parametrize("bad", LOOKED_INTO.values(), ids=LOOKED_INTO)
def test_it_is_reported_for_context_that_is_not_judged(bad: str) -> None:
    reported = [found for found in denials(POLICY, context=bad) if found.rule == "unreadable-field"]
    assert [(found.file, found.line) for found in reported] == [("context.yaml", 1)]


def test_roles_of_a_version_that_is_no_more() -> None:
    assert "unknown-kind" in {finding.rule for finding in denials(POLICY + OLD)}


def test_a_defect_of_the_engine_costs_one_object_and_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = judge.unknown_kind

    def fails(document: judge.Document, kinds: Kinds) -> str | None:
        if document.body["metadata"]["name"] == "odd":
            raise TypeError("the password is hunter2")
        return asked(document, kinds)

    monkeypatch.setattr(judge, "unknown_kind", fails)
    found = denials(f"{one('ConfigMap', 'name: odd')}---\n{one('Pdo', 'name: b')}")
    assert [(finding.rule, finding.line) for finding in found] == [("not-judged", 1), ("unknown-kind", 3)]
    assert "hunter2" not in str(found)
    assert found[0].remediation


@pytest.mark.parametrize("actions", ["x", "[Denied]", "[]"])
def test_a_binding_without_an_action_that_is_known_denies(actions: str) -> None:
    found = denials(POLICY.replace("validationActions: [Deny]", f"validationActions: {actions}"))
    assert {finding.rule for finding in found} == {"invalid-binding", "p"}


@pytest.mark.parametrize(
    ("version", "kind", "before", "path"),
    [
        ("apps/v1", "Deployment", "template: ", "spec.template"),  # whose own schema has them
        ("ray.io/v1", "RayCluster", "workerGroupSpecs: [template: ", "spec.workerGroupSpecs[0].template"),
    ],
)
def test_templates_that_cannot_be_read_are_reported_once(
    version: str, kind: str, before: str, path: str
) -> None:
    container = "{name: c, image: x, imagee: y, resources: {limits: {memory: 1GB}}}"
    spec = f"{before}{{spec: {{containers: [{container}]}}}}{']' * before.count('[')}"
    of_templates = "metadata: {name: p, annotations: {policies.gpupool.dev/pod-templates: 'true'}}"
    policy = POLICY.replace("metadata: {name: p}", of_templates, 1)
    documents, problems = read_text(policy + one(kind, "name: w", f"spec: {{{spec}}}", version), "f.yaml")
    assert problems == []
    found = [(one.rule, one.path) for one in check(documents).findings if one.origin == "document"]
    assert sorted(found) == [
        ("unknown-field", f"{path}.spec.containers[0].imagee"),
        ("unreadable-field", f"{path}.spec.containers[0].resources.limits.memory"),
    ]


CONFIGURATION = sorted(
    (row.api_version, row.kind) for row in Kinds.builtin() if row.group == "admissionregistration.k8s.io"
)


@pytest.mark.parametrize(("version", "kind"), CONFIGURATION)
def test_fields_of_the_admission_configuration_are_known_too(version: str, kind: str) -> None:
    """No policy judges these objects; what the server would drop of them is said all the same."""
    spec = "spec: {specc: {}}, webhooks: []" if "Policy" in kind else "webhooks: [{name: a, rulez: []}]"
    documents, _ = read_text(POLICY + one(kind, "name: w", spec, version), "f.yaml")
    place = "spec.specc" if "Policy" in kind else "webhooks[0].rulez"
    found = [finding for finding in check(documents).findings if finding.path == place]
    assert [finding.message for finding in found if "unknown field" in finding.message], (version, kind)
