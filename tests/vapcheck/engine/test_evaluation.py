"""What the API server's validator decides about one request where budgets and authorizers matter."""

from __future__ import annotations

from typing import Any

import pytest

from vapcheck import PolicyFinding, check, from_bodies

Body = dict[str, Any]
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
COSTLY = f"object.data.text.matches('{'b' * 360}')"
"""Some 900,000 units of cost for the text of `judged`: 9 of every 100 of a policy's budget."""


def judged(**spec: Any) -> list[PolicyFinding]:
    """The findings of a policy with `spec` about a ConfigMap with a text of 100,000 characters."""
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "p"}}
    binding = {"policyName": "p", "validationActions": ["Deny"]}
    policies = [
        {
            **head,
            "kind": "ValidatingAdmissionPolicy",
            "spec": {"matchConstraints": {"resourceRules": rules}, **spec},
        },
        {**head, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    ]
    text = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"text": "a" * 100_000},
    }
    report = check(from_bodies([text], "text"), policies=from_bodies(policies, "policies"))
    return [finding for finding in report.findings if finding.rule == "p"]


def messages(**spec: Any) -> list[str]:
    return [finding.message for finding in judged(**spec)]


def costly_message(variables: int, expression: str) -> Body:
    """A validation, the message of which reads so many costly variables, each through another one."""
    read = " + ".join(f"string(variables.v{number})" for number in range(variables))
    return {
        "variables": [
            *({"name": f"w{number}", "expression": COSTLY} for number in range(variables)),
            *({"name": f"v{number}", "expression": f"variables.w{number}"} for number in range(variables)),
        ],
        "validations": [{"expression": expression, "messageExpression": read}],
    }


@pytest.mark.parametrize(
    ("variables", "expected"), [(10, []), (12, [f"failed messageExpression: {OUT_OF_BUDGET}"])]
)
def test_variables_that_only_a_message_reads_spend_the_budget_though_nothing_fails(
    variables: int, expected: list[str]
) -> None:
    """The server evaluates messageExpressions whatever the validations say, with what these left."""
    assert messages(**costly_message(variables, "true")) == expected


def test_variables_that_a_validation_has_computed_are_paid_for_again_by_the_message() -> None:
    spent = messages(**costly_message(6, "variables.v0 || variables.v1 || variables.v2 || true"))
    assert spent == []
    every = " || ".join(f"variables.v{number}" for number in range(6))
    assert messages(**costly_message(6, f"{every} || true")) == [f"failed messageExpression: {OUT_OF_BUDGET}"]


def test_audit_annotations_are_evaluated_without_an_authorizer() -> None:
    """They may name it, as the validations may, but the server gives them none."""
    expression = "string(authorizer.requestResource.check('get').allowed())"
    annotations = [{"key": "allowed", "valueExpression": expression}]
    found = messages(validations=[{"expression": "true"}], auditAnnotations=annotations)
    assert found == [
        f"expression '{expression}' resulted in error: no such attribute(s): authorizer.requestResource"
    ]
