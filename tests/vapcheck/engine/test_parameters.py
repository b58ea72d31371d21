"""Which objects a binding hands to its policy (the real server is asked in tests/cluster/policies)."""

from __future__ import annotations

from typing import Any

import pytest

from vapcheck import Kinds, PolicyFinding, check, from_bodies, read_text
from vapcheck.policy.model import Binding, MatchResources, ParamRef, Policy
from vapcheck.policy.parameters import NOT_FOUND, ParameterError, Parameters
from vapcheck.policy.selectors import read_selector

DOCUMENT = from_bodies([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "any"}}], "f")[0]


def policy(kind: tuple[str, str] | None = ("v1", "ConfigMap")) -> Policy:
    return Policy("p", DOCUMENT, MatchResources(), (), (), (), (), True, kind, {})


def binding(name: str = "", namespace: str = "", labels: Any = None, deny: bool = False) -> Binding:
    selector = read_selector({"matchLabels": labels})[0] if labels is not None else None
    reference = ParamRef(name, namespace, selector, deny)
    return Binding("b", DOCUMENT, "p", MatchResources(), ("Deny",), reference)


def params(name: str, namespace: str = "default", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


GIVEN = Parameters(
    [params("a", set="x"), params("b", set="x"), params("a", set="x"), params("a", "team")], Kinds.builtin()
)


@pytest.mark.parametrize(
    ("bound", "namespace", "expected"),
    [
        (binding("a", "default"), "team", ["a"]),
        (binding("a"), "team", ["a"]),
        (binding("b"), "team", []),
        (binding(namespace="default", labels={"set": "x"}), "", ["a", "b"]),
        (binding(namespace="default", labels={"set": "y"}), "", []),
    ],
)
def test_found(bound: Binding, namespace: str, expected: list[str]) -> None:
    found = GIVEN.of(policy(), bound, namespace)
    assert [body and body["metadata"]["name"] for body in found] == expected, (
        "each once, however often it is given"
    )


def test_none_wanted() -> None:
    assert GIVEN.of(policy(None), binding("a"), "team") == [None]


def test_missing() -> None:
    with pytest.raises(ParameterError, match=NOT_FOUND) as raised:
        GIVEN.of(policy(), binding("none", "default", deny=True), "team")
    assert raised.value.remediation == (
        "Give the ConfigMap default/none that the binding 'b' (f) names, beside the manifests or with "
        "--policies; or correct spec.paramRef there, or allow it to be missing with "
        "parameterNotFoundAction: Allow."
    )


@pytest.mark.parametrize(
    ("bound", "kind", "named"),
    [
        (binding("none", deny=True), "ConfigMap", "ConfigMap team/none"),
        (
            binding(labels={"set": "y", "b": ""}, deny=True),
            "ConfigMap",
            "ConfigMap in team with the labels set=y, b=",
        ),
        (binding(labels={}, deny=True), "Secret", "Secret in team"),
        (binding("none", deny=True), "Node", "Node none"),
    ],
)
def test_the_missing_one_is_named(bound: Binding, kind: str, named: str) -> None:
    with pytest.raises(ParameterError) as raised:
        GIVEN.of(policy(("v1", kind)), bound, "team")
    assert raised.value.remediation.startswith(f"Give the {named} that the binding 'b' (f) names")


def test_findings_name_binding_and_parameter() -> None:
    rule = "{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}"
    kinds = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy"
    text = (
        f"{kinds}\nmetadata: {{name: p, annotations: {{policies.gpupool.dev/fix: Another matter.}}}}\n"
        f"spec:\n  matchConstraints: {{resourceRules: [{rule}]}}\n"
        "  paramKind: {apiVersion: v1, kind: ConfigMap}\n"
        "  validations: [{expression: params.data.a == '1'}]\n"
        f"---\n{kinds}Binding\nmetadata: {{name: b}}\nspec: {{policyName: p, validationActions: [Deny], "
        "paramRef: {name: limits, parameterNotFoundAction: ACTION}}\n"
    )
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": "team"}, "spec": {}}

    def found(action: str) -> PolicyFinding:
        policies = read_text(text.replace("ACTION", action), "p.yaml")[0]
        (finding,) = check(from_bodies([pod], "f"), policies=policies).findings
        return finding

    denied, passed = found("Deny"), found("Allow")
    assert denied.message == f"failed to configure binding: {NOT_FOUND}", "as the server says it"
    assert denied.binding == passed.binding == "b"
    assert denied.remediation.startswith(
        "Give the ConfigMap team/limits that the binding 'b' (p.yaml:9) names"
    )
    assert passed.message == "was not applied: its parameter, ConfigMap limits, is missing"
    assert passed.remediation.startswith("Give the ConfigMap limits that the binding 'b' (p.yaml:9) names")


def test_namespaced_for_a_cluster_object() -> None:
    with pytest.raises(ParameterError, match="cannot use namespaced paramRef") as raised:
        GIVEN.of(policy(), binding("a"), "")
    assert "spec.paramRef.namespace of the binding 'b'" in raised.value.remediation


def test_a_namespace_for_a_cluster_scoped_kind() -> None:
    with pytest.raises(ParameterError, match=r"paramRef\.namespace must not be provided") as raised:
        GIVEN.of(policy(("v1", "Node")), binding("a", "default"), "")
    assert raised.value.remediation.startswith("Remove spec.paramRef.namespace from the binding 'b'")


def test_unknown_kinds() -> None:
    said = GIVEN.unknown_kind(policy(("example.com/v1", "Limit")))
    assert said is not None
    assert said.endswith("'example.com/v1, Kind=Limit'")
    assert GIVEN.unknown_kind(policy()) is None


def test_an_object_given_without_its_definition_makes_its_kind_known() -> None:
    limits = [
        {**params("cluster"), "apiVersion": "example.com/v1", "kind": "Limit", "metadata": {"name": "x"}},
        {**params("x", "team"), "apiVersion": "example.com/v1", "kind": "Limit"},
    ]
    given, asked = Parameters(limits, Kinds.builtin()), policy(("example.com/v1", "Limit"))
    assert given.unknown_kind(asked) is None
    assert given.of(asked, binding("x"), "shop") == limits
    assert given.of(asked, binding("x", "team"), "shop") == limits[1:]
    assert given.of(asked, binding("none"), "shop") == []
