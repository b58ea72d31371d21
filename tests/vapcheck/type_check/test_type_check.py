"""The type check finds what no object can have, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf import policy_files
from tests.vapcheck.type_check.kind_by_kind import type_check_each
from vapcheck import Kinds, from_bodies, read_files
from vapcheck.policy.model import Policy
from vapcheck.policy.policy_set import read_policies
from vapcheck.policy.reader import read_policy
from vapcheck.policy.type_check import TypeWarning, matched_kinds, type_check
from vapcheck.server.schema import Schema

ROOT = Path(__file__).parents[3]
PODS = ("", "v1", ("pods",))
DEPLOYMENTS = ("apps", "v1", ("deployments",))
CRON_JOBS = ("batch", "v1", ("cronjobs",))
POOLS = ("example.dev", "v1", ("pools",))
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "pools.example.dev"},
    "spec": {
        "group": "example.dev",
        "names": {"kind": "Pool", "plural": "pools"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer"},
                                    "share": {"x-kubernetes-int-or-string": True},
                                    "free": {
                                        "type": "object",
                                        "x-kubernetes-preserve-unknown-fields": True,
                                        "properties": {"known": {"type": "string"}},
                                    },
                                    "rows": {
                                        "type": "array",
                                        "items": {"type": "object", "properties": {"a": {"type": "string"}}},
                                    },
                                    "grid": {
                                        "type": "array",
                                        "items": {"type": "array", "items": {"type": "string"}},
                                    },
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
KINDS = Kinds.builtin().with_crds(from_bodies([CRD], "crds"))


def policy(rules: tuple[Any, ...], *expressions: str, **more: Any) -> Policy:
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "tested"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [group],
                        "apiVersions": [version],
                        "resources": list(plurals),
                        "operations": ["*"],
                    }
                    for group, version, plurals in rules
                ]
            },
            "validations": [{"expression": expression} for expression in expressions],
            **more,
        },
    }
    read, problems = read_policy(from_bodies([body], "policy.yaml")[0])
    assert not problems
    return read


def check(rules: tuple[Any, ...], *expressions: str, **more: Any) -> list[TypeWarning]:
    return type_check([policy(rules, *expressions, **more)], KINDS)["tested"]


def messages(rules: tuple[Any, ...], *expressions: str, **more: Any) -> list[str]:
    return [f"{found.message}; {found.remediation}" for found in check(rules, *expressions, **more)]


def test_a_field_of_another_type() -> None:
    assert messages((PODS,), "has(object.spec.containers[0].volumes) && has(object.spec.volumes)") == [
        "undefined field 'volumes'; it is a field of PodSpec"
    ]


def test_types_of_several_kinds_are_named_as_one_says_them() -> None:
    (said,) = messages((PODS, DEPLOYMENTS), "object.spec + 1 == 2")
    assert "(DeploymentSpec or PodSpec, int)" in said


def test_misspelt_field_with_its_place_and_what_was_meant() -> None:
    (found,) = check((PODS,), "true ||\n  object.spec.hostNetwrk")
    assert found.message == "undefined field 'hostNetwrk'"
    assert found.remediation == "did you mean 'hostNetwork'?"
    assert (found.expression.path, found.line, found.column) == ("spec.validations[0].expression", 2, 14)
    assert [kind.kind for kind in found.kinds] == ["Pod"]


def test_every_misspelt_field_of_an_expression() -> None:
    found = check(
        (PODS,), "object.spec.containers.all(c, has(c.imge) && has(c.resorces)) && object.spek.x == 1"
    )
    assert [row.message for row in found] == [f"undefined field '{x}'" for x in ("imge", "resorces", "spek")]


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.containers.all(c, c.resources.limits['cpu'] == '1')",
        "object.spec.containers.all(c, quantity(c.resources.limits.cpu) == quantity('1'))",
        "object.spec.containers[0].startupProbe.httpGet.port in ['http']",
        "'hostNetwork' in object.spec && object.spec['hostNetwork'] && size(object.spec) > 1",
        "object.spec.containers + object.spec.initContainers != []",
        "(object.spec.containers + object.spec.ephemeralContainers).all(c, c.image != '')",
        "object.metadata.creationTimestamp == '2026-01-01T00:00:00Z'",
        "object.metadata.managedFields.all(f, f.fieldsV1.anything == 1)",
        "'object.spek' == \"object.spek\" || r'object.spek' == '''object.spek''' // object.spek",
        "object.metadata.?labels.?app.orValue('') == ''",
        "object == null || oldObject == null || object.spec == null || object.spec == oldObject.spec",
        "object.metadata.namespace == '' && namespaceObject.metadata.name == request.namespace",
        "object.metadata.labels.all(object, object != '')",
        "authorizer.group('').resource('pods').check('get').allowed()",
    ],
)
def test_right_for_pods(expression: str) -> None:
    assert messages((PODS,), expression) == []


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("object.metadata.labels['x'] == 1", "no matching overload for '_==_' applied to '(string, int)'"),
        ("object.spec.containers.all(c, c.ports == 'x')", "'(list(dyn), string)'"),
        ("object.metadata.__namespace__ == ''", "undefined field '__namespace__'; did you mean 'namespace'?"),
        (
            "(object.spec.containers + object.spec.ephemeralContainers).all(c, c.imge != '')",
            "undefined field 'imge'",
        ),
        ("'x' in object.spec && object.metadata.nam == ''", "undefined field 'nam'; did you mean 'name'?"),
    ],
)
def test_wrong_for_pods(expression: str, message: str) -> None:
    (found,) = messages((PODS,), expression)
    assert message in found


TEMPLATE = (
    "(object.kind == 'Pod' ? object.spec : object.kind == 'CronJob' ? "
    "object.spec.jobTemplate.spec.template.spec : object.spec.template.spec)"
)


def test_what_is_right_for_one_of_several_kinds_is_not_reported() -> None:
    rules = (PODS, DEPLOYMENTS, CRON_JOBS)
    assert messages(rules, f"{TEMPLATE}.containers.all(c, c.image != '')") == []
    assert messages(rules, f"{TEMPLATE}.containers.all(c, c.imge != '')") == [
        "undefined field 'imge'; did you mean 'image'?"
    ]


def test_kind_by_kind_as_the_server_has_it() -> None:
    found = type_check_each(
        policy((PODS, DEPLOYMENTS), "object.spec.template.x == 1 && object.spek == 1"), KINDS
    )
    assert {(row.message, *(kind.kind for kind in row.kinds)) for row in found} == {
        ("undefined field 'template'", "Pod"),
        ("undefined field 'x'", "Deployment"),
        ("undefined field 'spek'", "Pod"),
        ("undefined field 'spek'", "Deployment"),
    }


def test_variables_keep_their_types() -> None:
    variables = [
        {"name": "pod", "expression": "object.spec"},
        {"name": "containers", "expression": "variables.pod.containers"},
        {"name": "names", "expression": "variables.containers.map(c, c.name)"},
        {"name": "wrong", "expression": "variables.pod.hostNetwrk"},
    ]
    found = check(
        (PODS,),
        "variables.containers.all(c, c.imge != '') && variables.names == [1] && variables.wrong == 'x'",
        variables=variables,
    )
    assert [(row.expression.path, row.message) for row in found] == [
        ("spec.variables[3].expression", "undefined field 'hostNetwrk'"),
        ("spec.validations[0].expression", "undefined field 'imge'"),
        (
            "spec.validations[0].expression",
            "found no matching overload for '_==_' applied to '(list(string), list(int))'",
        ),
    ]


def test_presence_of_a_variable() -> None:
    variables = [{"name": "pod", "expression": "object.spec"}]
    assert (
        messages((PODS,), "has(variables.pod) && has(variables.pod.hostNetwork)", variables=variables) == []
    )
    (found,) = check((PODS,), "has(variables.pod) && has(variables.pod.hostNetwrk)", variables=variables)
    assert found.column == len("has(variables.pod) && has(")


def test_every_kind_of_expression_is_checked() -> None:
    found = check(
        (PODS,),
        "true",
        matchConditions=[{"name": "a", "expression": "object.spek == 1"}],
        auditAnnotations=[{"key": "a", "valueExpression": "object.spek"}],
        validations=[{"expression": "true", "messageExpression": "object.spek"}],
    )
    assert [row.expression.path for row in found] == [
        "spec.matchConditions[0].expression",
        "spec.validations[0].messageExpression",
        "spec.auditAnnotations[0].valueExpression",
    ]


def test_policies_checked_together_do_not_disturb_each_other() -> None:
    first = policy((PODS,), "object.spec.hostNetwork && object.data.x == 1")
    second = policy((("", "v1", ("configmaps",)),), "object.data.x == 'y' && object.spec == 1")
    object.__setattr__(second, "name", "other")
    found = type_check([first, second], KINDS)
    assert [row.message for row in found["tested"]] == ["undefined field 'data'"]
    assert [row.message for row in found["other"]] == ["undefined field 'spec'"]


def test_kinds_of_the_bundle() -> None:
    assert (
        messages((POOLS,), "object.spec.share == 1 || object.spec.share == '1' || object.spec.free.x.y == 1")
        == []
    )
    assert messages((POOLS,), "object.spec.grid.all(row, row.all(cell, cell == 'x' || cell == 1))") == []
    assert (
        messages((POOLS,), "object.metadata.name == object.kind && object.spec.rows.all(r, r.a == 'x')") == []
    )
    assert messages((POOLS,), "object.spec.sise == 1") == ["undefined field 'sise'; did you mean 'size'?"]
    assert messages((POOLS,), "object.spec.rows.all(r, r.b == 1)") == ["undefined field 'b'; "]
    assert messages((("example.dev", "v2", ("pools",)),), "object.spec.sise == 1") == []


def test_parameters() -> None:
    known = {"apiVersion": "v1", "kind": "ConfigMap"}
    unknown = {"apiVersion": "example.dev/v3", "kind": "Limits"}
    assert messages((PODS,), "params.dat.x == ''", paramKind=known) == [
        "undefined field 'dat'; did you mean 'data'?"
    ]
    assert messages((PODS,), "params.data.x == ''", paramKind=known) == []
    assert messages((PODS,), "params.dat.x == ''", paramKind=unknown) == []


@pytest.mark.parametrize(
    "rule",
    [
        ("*", "v1", ("pods",)),
        ("", "*", ("pods",)),
        ("", "v1", ("*",)),
        ("", "v1", ("pods/status",)),
        ("", "v1", ("x",)),
    ],
)
def test_wildcards_subresources_and_unknown_kinds_are_passed_over(rule: Any) -> None:
    assert matched_kinds(policy((rule,), "object.spek == 1"), KINDS) == {}
    assert messages((rule,), "object.spek == 1") == []


def test_ten_kinds_at_most() -> None:
    core = tuple(kind.plural for kind in KINDS if kind.api_version == "v1")
    assert len(core) > 10
    found = matched_kinds(policy((("", "v1", core), DEPLOYMENTS), "true"), KINDS)
    assert [kind.plural for kind in found] == sorted(core)[:10]


def test_nothing_to_say_about_our_own_policies(tmp_path: Path) -> None:
    for folder in (ROOT / "policies", policy_files.write(tmp_path, 50)):
        documents, _ = read_files(sorted(folder.glob("*.yaml")))
        found = [bound.compiled.policy for bound in read_policies(documents).policies]
        assert found
        assert not any(type_check(found, KINDS).values())


@st.composite
def paths(draw: st.DrawFn) -> str:
    """The path of some field of a Pod, through objects only."""
    schema: Schema | None = KINDS.schema("v1", "Pod")
    path = "object"
    for _ in range(draw(st.integers(1, 6))):
        assert schema is not None
        objects = {name: part for name, part in schema.properties.items() if part.properties}
        if not objects:
            break
        name = draw(st.sampled_from(sorted(objects)))
        path, schema = f"{path}.{name}", objects[name]
    assert schema is not None
    return f"{path}.{draw(st.sampled_from(sorted(schema.properties)))}"


@given(paths(), st.sampled_from("xyz"))
def test_any_field_of_a_pod(path: str, letter: str) -> None:
    assert messages((PODS,), f"has({path})") == []
    (found,) = check((PODS,), f"has({path}{letter}{letter})")
    assert found.message == f"undefined field '{path.rpartition('.')[2]}{letter}{letter}'"
