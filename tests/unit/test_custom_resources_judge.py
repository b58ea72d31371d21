"""The judge of custom resources says no where an API server does: one wrong object for each thing it holds.

What the server refuses is in apiextensions-apiserver 0.36, pkg/apiserver/validation and schema/cel.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.custom_resources import definitions

TEXT = {"type": "string"}
FIELDS = {
    "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": r"^[a-z]+\d?$"},
    "size": {"type": "integer", "format": "int32", "minimum": 1, "default": 3},
    "mode": {"type": "string", "enum": ["one", "two"]},
    "amount": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": "^[0-9]+$",
        "x-kubernetes-int-or-string": True,
    },
    "since": {"type": "string", "format": "date-time"},
    "items": {
        "type": "array",
        "items": {**TEXT, "x-kubernetes-validations": [{"rule": "self != 'bad'", "message": "not bad"}]},
        "maxItems": 2,
        "x-kubernetes-list-type": "set",
    },
    "tags": {"type": "object", "additionalProperties": TEXT, "maxProperties": 1},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "closed": {"type": "object", "properties": {"a": TEXT}},
}
RULES = [
    {"rule": "self.size < 10", "message": "size is below 10"},
    {"rule": "self.name == oldSelf.name", "message": "name stays"},
    {"rule": "self.tags.size() >= 0"},
]
CRD: dict[str, Any] = {
    "spec": {
        "group": "example.com",
        "names": {"kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "apiVersion": TEXT,
                            "kind": TEXT,
                            "metadata": {"type": "object"},
                            "spec": {
                                "type": "object",
                                "required": ["name"],
                                "properties": FIELDS,
                                "x-kubernetes-validations": RULES,
                            },
                            "status": {"type": "object", "description": "the controller's"},
                        },
                    }
                },
            }
        ],
    }
}
GOOD: dict[str, Any] = {"name": "ab1", "tags": {}, "amount": "5", "free": {"x": [1]}, "items": ["a", "b"]}
META = {"name": "a.b"}
(THING,) = definitions([CRD]).values()


def judged(spec: dict[str, Any], metadata: dict[str, Any]) -> list[str]:
    return THING.problems(
        {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": spec}
    )


def test_a_right_object_is_taken_and_left_as_it_is() -> None:
    spec = copy.deepcopy(GOOD)
    assert judged(spec, META) == []
    assert spec == GOOD


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": None}, "spec.name: None is not of type 'string'"),
        ({"name": "a"}, "spec.name: 'a' is too short"),
        ({"name": "abcde"}, "spec.name: 'abcde' is too long"),
        ({"name": "ab\n"}, "spec.name: 'ab\\n' does not match"),
        ({"name": "ab٣"}, "spec.name: 'ab٣' does not match"),
        ({"size": 1.0}, "spec.size: 1.0 is not of type 'integer'"),
        ({"size": True}, "spec.size: True is not of type 'integer'"),
        ({"size": 2**31}, "spec.size: 2147483648 is greater than the maximum"),
        ({"size": 0}, "spec.size: 0 is less than the minimum of 1"),
        ({"size": 12}, "spec: size is below 10"),
        ({"mode": "three"}, "spec.mode: 'three' is not one of ['one', 'two']"),
        ({"amount": 1.5}, "spec.amount: 1.5 is not"),
        ({"amount": "x"}, "spec.amount: 'x' does not match"),
        ({"since": "today"}, "spec.since: 'today' does not match"),
        ({"items": ["a", "b", "c"]}, "spec.items: ['a', 'b', 'c'] is too long"),
        ({"items": ["a", "a"]}, "spec.items: ['a', 'a'] has non-unique elements"),
        ({"items": ["a", "bad"]}, "spec.items[1]: not bad"),
        ({"tags": {"a": 1}}, "spec.tags.a: 1 is not of type 'string'"),
        ({"tags": {"a": "", "b": ""}}, "spec.tags: {'a': '', 'b': ''} has too many properties"),
        ({"closed": {"b": ""}}, "spec.closed: Additional properties are not allowed ('b' was unexpected)"),
        ({"more": 1}, "spec: Additional properties are not allowed ('more' was unexpected)"),
    ],
)
def test_a_wrong_value_is_refused(change: dict[str, Any], said: str) -> None:
    (problem, *_) = judged(GOOD | change, META)
    assert problem.startswith(said)


def test_what_is_missing_is_refused() -> None:
    assert judged({"tags": {}}, META) == ["spec: 'name' is a required property"]
    (problem,) = judged({"name": "ab"}, META)
    assert problem == "spec: no such key: tags"


@pytest.mark.parametrize(
    "metadata", [{"name": "A"}, {}, META | {"labels": {"a b": ""}}, META | {"labels": {"a": "x" * 64}}]
)
def test_wrong_names_and_labels_are_refused(metadata: dict[str, Any]) -> None:
    assert judged(GOOD, metadata)


def test_a_keyword_that_is_not_known_is_not_passed_over() -> None:
    unknown = copy.deepcopy(CRD)
    schema = unknown["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["multipleOf"] = 2
    with pytest.raises(NotImplementedError, match="multipleOf"):
        definitions([unknown])
