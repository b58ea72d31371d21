"""Policies and bindings with one place changed, and whether the API server takes them.

The engine's reader must say the same (test_policy_forms.py here), and a real server says whether the verdicts
written here are right (tests/cluster/policies/test_policy_forms.py).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from vapcheck import Document, PolicyFinding, from_bodies
from vapcheck.policy.policy_set import read_policies

Object = dict[str, Any]
Path = tuple[str | int, ...]
_VERSION = "admissionregistration.k8s.io/v1"
_RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
POLICY: Final[Object] = {
    "apiVersion": _VERSION,
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "x", "labels": {"a": "b"}, "annotations": {"policies.gpupool.dev/title": "T"}},
    "spec": {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {
            "matchPolicy": "Exact",
            "namespaceSelector": {"matchLabels": {"a": "b"}},
            "objectSelector": {
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["b"]},
                    {"key": "c", "operator": "Exists"},
                ]
            },
            "resourceRules": [_RULE | {"scope": "Namespaced", "resourceNames": ["one"]}],
            "excludeResourceRules": [_RULE | {"resources": ["deployments/scale"]}],
        },
        "matchConditions": [{"name": "c", "expression": "true"}],
        "variables": [{"name": "v", "expression": "1"}],
        "validations": [
            {"expression": "true", "message": "m", "messageExpression": "'m'", "reason": "Invalid"}
        ],
        "auditAnnotations": [{"key": "k", "valueExpression": "'x'"}],
    },
}
BINDING: Final[Object] = {
    "apiVersion": _VERSION,
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "x"},
    "spec": {
        "policyName": "x",
        "validationActions": ["Deny", "Audit"],
        "paramRef": {"name": "n", "namespace": "s", "parameterNotFoundAction": "Deny"},
        "matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}, "resourceRules": [_RULE]},
    },
}
_CONDITION, _AUDIT = {"expression": "true"}, {"valueExpression": "'x'"}
_RESOURCES = "spec.matchConstraints.resourceRules.0.resources"
REFUSED: Final[list[tuple[str, Any]]] = [
    ("metadata.annotations", "hello"),
    ("metadata.annotations", ["hello"]),
    ("metadata.annotations", {"a b": "c"}),
    ("metadata.labels", {"a b": "c"}),
    ("metadata.labels.a", "a b"),
    ("spec.failurePolicy", ""),
    ("spec.matchConstraints", {}),
    ("spec.matchConstraints.matchPolicy", ""),
    ("spec.matchConstraints.namespaceSelector.matchLabels", []),
    ("spec.matchConstraints.objectSelector.matchExpressions", {}),
    ("spec.matchConstraints.objectSelector.matchExpressions.0.key", 5),
    ("spec.matchConstraints.resourceRules", []),
    ("spec.matchConstraints.resourceRules.0.apiVersions", [""]),
    ("spec.matchConstraints.resourceRules.0.operations", ["CREATE", "*"]),
    ("spec.matchConstraints.resourceRules.0.scope", ""),
    ("spec.matchConstraints.resourceRules.0.resourceNames", ["a", "a"]),
    ("spec.matchConstraints.resourceRules.0.resourceNames", ["a/b"]),
    ("spec.matchConstraints.resourceRules.0.resourceNames", [".."]),
    (_RESOURCES, [""]),
    (_RESOURCES, ["pods", ""]),
    (_RESOURCES, ["*", "pods"]),
    (_RESOURCES, ["*/*", "pods"]),
    (_RESOURCES, ["pods/*", "pods/status"]),
    (_RESOURCES, ["*/scale", "pods/scale"]),
    (_RESOURCES, ["pods/*", "pods/*"]),
    ("spec.matchConditions", [_CONDITION | {"name": f"c{number}"} for number in range(65)]),
    ("spec.matchConditions", [_CONDITION | {"name": "a"}, _CONDITION | {"name": "a"}]),
    ("spec.matchConditions.0.name", "a b"),
    ("spec.matchConditions.0.name", "A/b"),
    ("spec.matchConditions.0.name", "x" * 64),
    ("spec.variables.0.name", "a-b"),
    ("spec.validations.0.message", " "),
    ("spec.validations.0.message", "a\nb"),
    ("spec.validations.0.messageExpression", " "),
    ("spec.validations.0.reason", ""),
    ("spec.auditAnnotations", [_AUDIT | {"key": f"k{number}"} for number in range(21)]),
    ("spec.auditAnnotations.0.key", "a b"),
    ("spec.auditAnnotations.0.key", "a/b"),
    ("spec.auditAnnotations.0.key", "x" * 64),
    ("spec.paramKind", {}),
    ("spec.paramKind", {"apiVersion": "v1"}),
    ("spec.paramKind", {"kind": "ConfigMap"}),
    ("spec.paramKind.apiVersion", "a/b/c"),
    ("spec.paramKind.apiVersion", "a/"),
    ("spec.paramKind.apiVersion", "V1"),
    ("spec.paramKind.kind", "config map"),
    ("binding spec.policyName", "A b"),
    ("binding spec.validationActions", ["Deny", "Deny"]),
    ("binding spec.paramRef.name", "a/b"),
    ("binding spec.paramRef.name", "."),
    ("binding spec.paramRef", {}),
    ("binding spec.matchResources.resourceRules.0.resources", [""]),
]
"""(path, value); numbers are list indexes."""
TAKEN: Final[list[tuple[str, Any]]] = [
    ("metadata.labels.a", ""),
    ("metadata.annotations", {"UPPER.example/a": "b"}),
    ("spec.failurePolicy", None),
    ("spec.matchConstraints.namespaceSelector.matchLabels.a", None),
    ("spec.matchConstraints.resourceRules.0.apiGroups", [None]),
    ("spec.matchConstraints.resourceRules.0.operations", ["CREATE", "CREATE"]),
    ("spec.matchConstraints.resourceRules.0.resourceNames", ["A_b", "x y", ""]),
    (_RESOURCES, ["pods", "pods"]),
    (_RESOURCES, ["pods", "*"]),
    (_RESOURCES, ["*", "pods/scale"]),
    (_RESOURCES, ["pods/status", "pods/*"]),
    ("spec.matchConditions", [_CONDITION | {"name": f"c{number}"} for number in range(64)]),
    ("spec.matchConditions.0.name", "a.example/B_c"),
    ("spec.variables", [{"name": "v", "expression": "1"}, {"name": "v", "expression": "2"}]),
    ("spec.validations.0.message", ""),
    ("spec.validations.0.message", "\na\n"),
    ("spec.validations.0.messageExpression", ""),
    ("spec.auditAnnotations.0.key", "A_b"),
    ("spec.paramKind", None),
    ("spec.paramKind.apiVersion", "a.b/v1"),
    ("spec.paramKind.apiVersion", "/v1"),
    ("spec.paramKind.kind", "Config-Map"),
    ("binding spec.matchResources", {}),
    ("binding spec.paramRef.name", "A b"),
    ("binding spec.paramRef.namespace", "A b"),
]
ODD: Final[tuple[Any, ...]] = (
    None, "", " ", "a b", "A", "a/b", "/a", "*", "x" * 64, "x" * 254, "..", "a%b", "hello", "é", "1",
    5, True, [], {}, ["a"], ["a", "a"], [None], {"a": "b"}, {"a": None},
)  # fmt: skip


def form(path: str, value: Any) -> Object:
    """The policy, or the binding, with that value at the path."""
    words = path.removeprefix("binding ").split(".")
    place: Path = tuple(int(word) if word.isdigit() else word for word in words)
    return changed(BINDING if path.startswith("binding ") else POLICY, place, value)


def odd_forms() -> Iterator[tuple[str, Object]]:
    """Each place of both with each of the odd values, and what it is called.

    Metadata that are no mapping make no object at all, which is for the reader of documents to say.
    """
    for body in (POLICY, BINDING):
        for place in _places(body):
            if place[0] == "spec" or (place[0] == "metadata" and len(place) > 1):
                for value in ODD:
                    yield f"{body['kind']} {place}: {value!r}", changed(body, place, value)


def _places(value: Any, above: Path = ()) -> Iterator[Path]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (*above, key)
        yield from _places(below, (*above, key))


def changed(body: Object, place: Path, value: Any) -> Object:
    """A copy with another value at that place."""
    copied = copy.deepcopy(body)
    where: Any = copied
    for key in place[:-1]:
        where = where[key]
    where[place[-1]] = value
    return copied


def refusals(body: Object) -> list[PolicyFinding]:
    """What the engine has against the form; that no policy has the name of a binding is none of it."""
    documents: list[Document] = from_bodies([body], "forms")
    rules = ("invalid-policy", "invalid-binding")
    return [finding for finding in read_policies(documents).findings if finding.rule in rules]
