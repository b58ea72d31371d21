"""Values that no server can read are denials with their place, in the words of YAML; all others pass."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.vapcheck.admission.decoding_cases import READ, UNREAD, config_map, pod
from vapcheck import PolicyFinding, check, from_bodies

KUBECTL = "kubectl.kubernetes.io/last-applied-configuration"


def found(body: dict[str, Any]) -> list[PolicyFinding]:
    return list(check(from_bodies([body], "f")).findings)


@pytest.mark.parametrize("body", READ, ids=lambda body: json.dumps(body)[-70:])
def test_read(body: dict[str, Any]) -> None:
    assert found(body) == []


@pytest.mark.parametrize("body", UNREAD, ids=lambda body: json.dumps(body)[-70:])
def test_not_read(body: dict[str, Any]) -> None:
    findings = found(body)
    assert [(one.level, one.rule) for one in findings] == [("deny", "unreadable-field")]
    assert findings[0].path
    assert findings[0].remediation


@pytest.mark.parametrize(
    ("body", "message", "fix"),
    [
        (config_map(metadata={"labels": {"b": True}}), "true instead of text", "quote it"),
        (config_map(metadata={"labels": {"b": ["x"]}}), '["x"] instead of text', "write text"),
        (pod(image={"a": None}), '{"a": null} instead of text', "write text"),
        (pod(tty="yes"), '"yes" instead of true or false', "write true or false"),
        (
            pod(resources={"limits": {"memory": "1GB"}}),
            '"1GB" instead of a quantity',
            "write 1G or 1Gi",
        ),
        (pod(resources={"limits": {"memory": "2 kib"}}), '"2 kib" instead of a quantity', "write 2Ki"),
        (
            pod(ports=[{"containerPort": 2**31}]),
            "2147483648 instead of a whole number from -2,147,483,648 to 2,147,483,647",
            "write one of them",
        ),
    ],
)
def test_words(body: dict[str, Any], message: str, fix: str) -> None:
    (finding,) = found(body)
    assert (finding.message, finding.remediation) == (message, fix)


def test_metadata_of_kinds_that_are_not_known() -> None:
    body = {"apiVersion": "x.y/v1", "kind": "Odd", "metadata": {"generateName": 5, "labels": {"b": True}}}
    assert [one.path for one in found(body)] == ["metadata.generateName", "metadata.labels.b"]


def test_metadata_of_a_secret_of_another_version_is_not_shown() -> None:
    metadata = {"name": "s", "annotations": {KUBECTL: {"data": {"a": "aHVudGVyMg=="}}}}
    (finding,) = found({"apiVersion": "x.y/v1", "kind": "Secret", "metadata": metadata})
    assert "aHVudGVyMg" not in finding.message
