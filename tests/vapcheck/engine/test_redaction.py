"""What a Secret holds does not reach a report, whoever the finding is about."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from vapcheck import Document, ObjectRef, PolicyFinding, Report, check, from_bodies
from vapcheck.judging.redaction import UNKNOWN, WITHHELD, without_secrets

PASSWORD = "correct-horse"
ENCODED = base64.b64encode(PASSWORD.encode()).decode()
Body = dict[str, Any]
SECRET: Body = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "db", "namespace": "default", "labels": {"team": "ml"}},
    "data": {"key": ENCODED, "n": "MQ=="},
}
POD: Body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": {}}


def policy(kind: str, validation: Body, **spec: Any) -> list[Body]:
    """A policy about `secrets` or `pods` with its binding; `params` makes the Secret its parameter."""
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": [kind]}]
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "p"}}
    binding: Body = {"policyName": "p", "validationActions": ["Deny"]}
    if spec.pop("params", False):
        spec["paramKind"] = {"apiVersion": "v1", "kind": "Secret"}
        where = {"name": "db", "namespace": "default", "parameterNotFoundAction": "Deny"}
        binding["paramRef"] = where
    spec |= {"matchConstraints": {"resourceRules": rules}, "validations": [validation]}
    return [
        {**head, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        {**head, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    ]


def shown(policies: list[Body], *objects: Body) -> PolicyFinding:
    """The policy's one finding about the objects, as a report shows it."""
    documents = from_bodies([SECRET, *objects, *policies], "trial")
    findings = [found for found in without_secrets(check(documents), documents).findings if found.rule == "p"]
    assert len(findings) == 1
    return findings[0]


DERIVED = [
    "'x' + object.data.key.upperAscii()",
    "object.data.key.substring(1)",
    "object.data.key.split('').join('-')",
    "string(object['data']['key'])",
    "string(object.?data.key.orValue(''))",
    "string(dyn(object).data.key)",
    "[object].map(o, string(o.data.key))[0]",
    "string(size(object.data))",
    "'\"' + object.data.key // 'a",
    r"r'\d' + string(object.data.key) + ''",
    "variables.second",
    "object.metadata.name + variables.second",
]


@pytest.mark.parametrize("expression", DERIVED)
def test_a_message_that_reads_the_contents_is_withheld(expression: str) -> None:
    rows = [
        {"name": "first", "expression": "object.data"},
        {"name": "second", "expression": "variables.first.key.lowerAscii()"},
    ]
    found = shown(policy("secrets", {"expression": "false", "messageExpression": expression}, variables=rows))
    assert found.message == WITHHELD
    mixed = {"expression": "false", "message": "mind the key", "messageExpression": expression}
    assert shown(policy("secrets", mixed, variables=rows)).message == f"mind the key ({WITHHELD})"


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ({"expression": "false", "message": "1 of the key in object.data"}, "1 of the key in object.data"),
        ({"expression": "object.data.size() > 9"}, "failed expression: object.data.size() > 9"),
        (
            {"expression": "false", "messageExpression": "object.metadata.name + ': object.data'"},
            "db: object.data",
        ),
        (
            {"expression": "false", "messageExpression": "string(object.metadata.?labels.team.orValue(''))"},
            "ml",
        ),
        ({"expression": "false", "messageExpression": "namespaceObject.metadata.name // object"}, "default"),
    ],
)
def test_other_messages_about_a_secret_stay(validation: Body, message: str) -> None:
    assert shown(policy("secrets", validation)).message == message


def test_values_worked_out_from_the_contents_are_hidden() -> None:
    rows = [
        {"name": "shout", "expression": "object.data.key.upperAscii()"},
        {"name": "count", "expression": "object.data.size()"},
        {"name": "name", "expression": "object.metadata.name"},
    ]
    expression = (
        "variables.shout == 'A' || variables.count > 9 || variables.name == 'x' || object.data.size() > 7"
    )
    found = shown(policy("secrets", {"expression": expression}, variables=rows))
    assert {found.values["variables.shout"], found.values["variables.count"]} == {"***"}
    assert found.values["variables.name"] == "db"
    assert not any("data" in name and value != "***" for name, value in found.values.items())
    loop = "object.data.all(k, v, size(v) + k.size() < 3)"
    assert set(shown(policy("secrets", {"expression": loop})).values.values()) <= {"***"}


def test_an_error_does_not_tell_the_value() -> None:
    expression = "'a'.matches(object.data.key + '(')"
    found = shown(policy("secrets", {"expression": expression}, failurePolicy="Ignore"))
    assert ENCODED not in str(found)
    assert "error withheld" in found.message
    assert found.message.endswith("(ignored: failurePolicy Ignore)")
    condition = [{"name": "c", "expression": expression}]
    assert ENCODED not in str(shown(policy("secrets", {"expression": "true"}, matchConditions=condition)))


def test_a_secret_as_parameter_is_not_told_either() -> None:
    rows = [{"name": "key", "expression": "params.data.key.upperAscii()"}]
    validation = {"expression": "variables.key == object.metadata.name", "messageExpression": "variables.key"}
    found = shown(policy("pods", validation, variables=rows, params=True), POD)
    assert found.message == WITHHELD
    assert ENCODED.upper() not in str(found)
    named = {
        "expression": "false",
        "messageExpression": "string(object.metadata.name) + string(params.metadata.name)",
    }
    assert shown(policy("pods", named, params=True), POD).message == "pdb"


def test_contents_in_an_annotation_are_withheld() -> None:
    note = {"kubectl.kubernetes.io/last-applied-configuration": f'{{"data":{{"key":"{ENCODED}"}}}}'}
    validation = {"expression": "false", "messageExpression": "string(object.metadata.annotations.size())"}
    kept = {**SECRET, "metadata": {**SECRET["metadata"], "annotations": note}}
    documents = from_bodies([kept, *policy("secrets", validation)], "trial")
    assert WITHHELD in {found.message for found in without_secrets(check(documents), documents).findings}


def redacted(kind: str, message: str, *bodies: Body, **values: Any) -> PolicyFinding:
    """A finding of a policy that is not at hand."""
    finding = PolicyFinding("deny", "p", message, object=ObjectRef("v1", kind, None, "db"), values=values)
    documents: list[Document] = from_bodies(bodies or [SECRET], "trial")
    return without_secrets(Report((finding,), 1, 1, {"p": 1}), documents).findings[0]


def test_without_its_policy_no_message_about_a_secret_is_shown() -> None:
    found = redacted("Secret", "anything", size=13)
    assert (found.message, found.values) == (UNKNOWN, {"size": "***"})


def test_another_object_may_not_tell_it_either() -> None:
    found = redacted("Pod", f"1 of {PASSWORD}", params={"data": [ENCODED, "1"]}, name="db")
    assert found.message == "1 of ***", "a short value is an ordinary word elsewhere"
    assert found.values == {"params": {"data": ["***", "1"]}, "name": "db"}


def test_text_is_hidden_in_its_encoded_form_and_by_lines_too() -> None:
    plain = {**SECRET, "data": {}, "stringData": {"key": PASSWORD, "more": "line one\n  line two"}}
    assert redacted("Pod", f"{ENCODED} {PASSWORD}, line two", plain).message == "*** ***, ***"


def test_values_of_a_malformed_secret_are_hidden_too() -> None:
    for data in (f"password: {PASSWORD}", [PASSWORD], {"a": [PASSWORD]}):
        broken = {**SECRET, "kind": "SecretList", "apiVersion": "v2", "stringData": data}
        assert redacted("Pod", f"psst {PASSWORD}", broken).message == "psst ***"


@pytest.mark.parametrize("value", ["example.com", "production", "short-1"])
def test_what_anybody_may_know_is_not_masked(value: str) -> None:
    secret = {**SECRET, "data": {}, "stringData": {"host": value}}
    pod = {**POD, "spec": {"containers": [{"name": "a", "image": "example.com/app:1"}]}}
    assert redacted("Pod", f"{value}/app:1", secret, pod).message == f"{value}/app:1"


def test_without_secrets_nothing_changes() -> None:
    settings = {**SECRET, "kind": "ConfigMap"}
    found = redacted("ConfigMap", ENCODED, settings, a=ENCODED)
    assert (found.message, found.values) == (ENCODED, {"a": ENCODED})
