"""The engine says of each minor what a server of it said (recorded.json)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.vapcheck.minors.asked import CASES, RECORDED, at, binding, pod, policy
from vapcheck import Kinds, PolicyFinding, check, from_bodies
from vapcheck.server.admission_view import as_admitted
from vapcheck.server.minors import MINORS

Object = dict[str, Any]
RECORDS: dict[str, Object] = json.loads(RECORDED.read_text())


def judged(minor: str, *bodies: Object) -> tuple[PolicyFinding, ...]:
    return check(from_bodies(bodies, "case"), kinds=Kinds.builtin(minor)).findings


def is_taken(minor: str, body: Object) -> bool:
    return all(finding.rule != "invalid-policy" for finding in judged(minor, body))


def of_object(minor: str, case: Object) -> Object:
    findings = judged(minor, case["body"])
    if any(finding.rule == "unknown-kind" for finding in findings):
        return {"kind": False}
    answer = {"unknown": sorted(f.path for f in findings if f.rule == "unknown-field")}
    if "kept" not in case:
        return answer
    admitted = as_admitted(case["body"], Kinds.builtin(minor), operation="CREATE")
    return {**answer, "kept": at(admitted, case["kept"])}


def of_decision(minor: str, name: str, case: Object) -> Object:
    policies = [policy(name, "1", case["validation"]), binding(name)]
    return {key: denial(judged(minor, *policies, pod(name, key, spec))) for key, spec in case["pods"].items()}


def denial(findings: tuple[PolicyFinding, ...]) -> str | None:
    return next((finding.message for finding in findings if finding.level == "deny"), None)


def every_answer(minor: str) -> Object:
    return {
        "expressions": {n: is_taken(minor, policy(n, text)) for n, text in CASES["expressions"].items()},
        "versions": {v: is_taken(minor, policy("p", "1", version=v)) for v in CASES["versions"]},
        "objects": {name: of_object(minor, case) for name, case in CASES["objects"].items()},
        "decisions": {name: of_decision(minor, name, case) for name, case in CASES["decisions"].items()},
    }


def differing(ours: Object, theirs: Object) -> Iterator[str]:
    for part in theirs:
        for name, answer in theirs[part].items():
            if ours[part].get(name) != answer:
                yield f"{part} {name}: ours {ours[part].get(name)}, the server's {answer}"


def test_every_minor_and_every_case_is_recorded() -> None:
    assert tuple(RECORDS) == MINORS
    for answers in RECORDS.values():
        assert {part: set(answers[part]) for part in answers} == {part: set(CASES[part]) for part in CASES}


def test_minors_differ_from_each_other() -> None:
    """Cases that every server answers alike would prove nothing."""
    assert len({json.dumps(answers, sort_keys=True) for answers in RECORDS.values()}) == len(MINORS)


@pytest.mark.parametrize("minor", MINORS)
def test_the_engine_says_what_the_server_said(minor: str) -> None:
    assert list(differing(every_answer(minor), RECORDS[minor])) == []


@pytest.mark.parametrize(
    ("version", "minor"),
    [("1.31", "1.33"), ("1.33+", "1.33"), ("v1.34.2-gke.10", "1.34"), ("1.36", "1.36"), ("1.40", "1.36")],
)
def test_a_version_is_judged_as_the_nearest_minor(version: str, minor: str) -> None:
    assert Kinds.builtin(version).minor == minor


@pytest.mark.parametrize("version", ["", "1", "2.0", "1.x", "1.33beta", "v", "latest", "1.-3"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes version; write it as"):
        Kinds.builtin(version)


def test_a_version_that_must_be_enabled_is_said_to_be() -> None:
    body = policy("p", "1", version="v1beta1")
    message = (
        f"{body['apiVersion']!r} is not served by Kubernetes {{}}; write admissionregistration.k8s.io/v1"
    )
    for minor, served in (("1.33", "1.33 unless it is enabled"), ("1.34", "1.34")):
        assert message.format(served) in [finding.message for finding in judged(minor, body)]


@pytest.mark.parametrize("minor", MINORS)
def test_custom_kinds_are_judged_at_every_minor(minor: str) -> None:
    names = {"plural": "gadgets", "kind": "Gadget"}
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.a.example"},
        "spec": {"group": "a.example", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    gadget = {"apiVersion": "a.example/v1", "kind": "Gadget", "metadata": {"name": "g", "labels": {"a": "b"}}}
    kinds = Kinds.builtin(minor).with_crds(from_bodies([crd], "crd"))
    admitted = as_admitted(gadget, kinds, operation="CREATE")
    assert admitted["metadata"]["labels"] == {"a": "b"}
    assert admitted["metadata"]["namespace"] == "default"
    assert {finding.rule for finding in judged(minor, crd, gadget)} <= {"unmatched-policy"}


def test_types_are_checked_by_the_fields_of_the_minor() -> None:
    documents = from_bodies([policy("p", "object.spec.hostnameOverride"), binding("p")], "case")
    mistyped = [
        minor
        for minor in MINORS
        for finding in check(documents, kinds=Kinds.builtin(minor), typed=True).findings
        if "hostnameOverride" in finding.message
    ]
    assert mistyped == ["1.33"]
