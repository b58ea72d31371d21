"""Label selectors: what they match, and what is not a selector."""

from __future__ import annotations

from typing import Any

import pytest

from vapcheck.policy.selectors import read_selector


@pytest.mark.parametrize(
    ("body", "labels", "expected"),
    [
        (None, {}, True),
        ({}, {"a": "b"}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "b"}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "c"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}, {"a": "c"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}, {"a": "b"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
        (
            {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]},
            {"a": "b"},
            False,
        ),
    ],
)
def test_matches(body: Any, labels: dict[str, str], expected: bool) -> None:
    selector, problems = read_selector(body)
    assert not problems
    assert selector.matches(labels) is expected


@pytest.mark.parametrize(
    ("body", "path", "said"),
    [
        ("a=b", "", "mapping"),
        ({"labels": {}}, "labels", "unknown field"),
        ({"matchLabels": ["a"]}, "matchLabels", "mapping"),
        ({"matchLabels": {"a": 1}}, "matchLabels[a]", "quote it"),
        ({"matchLabels": {"-a": "b"}}, "matchLabels[-a]", "not a label key"),
        ({"matchLabels": {"UP.example/a": "b"}}, "matchLabels[UP.example/a]", "not a label key"),
        ({"matchLabels": {"a": "b" * 64}}, "matchLabels[a]", "not a label value"),
        ({"matchExpressions": {}}, "matchExpressions", "a list"),
        ({"matchLabels": []}, "matchLabels", "mapping"),
        (
            {"matchExpressions": [{"key": None, "operator": "Exists"}]},
            "matchExpressions[0].key",
            "not a label key",
        ),
        (
            {"matchExpressions": [{"key": 5, "operator": "Exists"}]},
            "matchExpressions[0].key",
            "not a label key",
        ),
        ({"matchExpressions": ["a"]}, "matchExpressions[0]", "mapping"),
        (
            {"matchExpressions": [{"key": "a", "operator": "Is"}]},
            "matchExpressions[0].operator",
            "none of In",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            "matchExpressions[0].values",
            "at least one",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
            "matchExpressions[0].values",
            "takes no values",
        ),
    ],
)
def test_refused(body: Any, path: str, said: str) -> None:
    _, problems = read_selector(body)
    assert [(where, said in message) for where, message in problems] == [(path, True)]
