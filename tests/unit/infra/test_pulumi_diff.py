"""What changed, how it is written, and whether it takes a new object."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from infra.local.pulumi_diff import Change, changes, drifted_inputs, format_path, replaces

leaves = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
values: Any = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
)


@given(values)
def test_nothing_differs_from_itself(value: Any) -> None:
    assert list(changes(value, value)) == []


@given(st.dictionaries(st.text(max_size=2), values), st.dictionaries(st.text(max_size=2), values))
def test_what_differs_is_found(old: Any, new: Any) -> None:
    same_text = repr(old) == repr(new)
    assert (list(changes(old, new)) == []) == (old == new and (same_text or not _bool_for_int(old, new)))


def _bool_for_int(old: Any, new: Any) -> bool:
    """Python calls True and 1 equal; Kubernetes does not."""
    if isinstance(old, dict):
        return any(_bool_for_int(old[key], new[key]) for key in old)
    if isinstance(old, list):
        return any(_bool_for_int(*pair) for pair in zip(old, new, strict=True))
    return isinstance(old, bool) != isinstance(new, bool)


def test_paths_are_written_as_pulumi_does() -> None:
    old = {"spec": {"limits": {"nvidia.com/gpu": "4"}, "taints": [{"key": "a"}]}}
    new = {"spec": {"limits": {"nvidia.com/gpu": "3"}, "taints": [{"key": "b"}], "weight": 1}}
    assert [change.text for change in changes(old, new)] == [
        'spec.limits["nvidia.com/gpu"]',
        "spec.taints[0].key",
        "spec.weight",
    ]
    assert format_path(('a"b', "c[0]")) == 'a"b'.join(('["', '"]')).replace('a"b', 'a\\"b') + '["c[0]"]'


def test_names_and_immutable_fields_take_a_new_object() -> None:
    name = Change(("metadata", "name"), "update")
    assert replaces(name, "NodePool")
    assert replaces(name, "")
    assert not replaces(Change(("metadata", "labels", "name"), "update"), "NodePool")
    data = Change(("data", "config.yaml"), "update")
    assert replaces(data, "ConfigMap")
    assert not replaces(data, "ConfigMap", frozenset({"ConfigMap"}))
    assert not replaces(data, "ClusterPolicy")
    assert replaces(Change(("spec",), "delete"), "StatefulSet"), "removing a parent removes the field"


def test_the_servers_own_rewriting_is_no_drift() -> None:
    inputs = {"spec": {"cpu": "1000m", "nodes": "2"}, "metadata": {"labels": {"a": "1"}}}
    before = {"spec": {"cpu": "1", "nodes": "2", "defaulted": True}, "metadata": {"labels": {"a": "1"}}}
    assert drifted_inputs(inputs, before, before) == inputs
    now = {"spec": {"cpu": "1", "nodes": "9", "defaulted": False}, "metadata": {"labels": {"b": "2"}}}
    assert drifted_inputs(inputs, before, now) == {
        "spec": {"cpu": "1000m", "nodes": "9"},
        "metadata": {"labels": {}},
    }


@given(st.dictionaries(st.text(max_size=2), values))
def test_without_a_change_nothing_drifts(body: Any) -> None:
    assert drifted_inputs(body, body, body) == body
