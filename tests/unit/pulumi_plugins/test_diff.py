"""What changed, how it is written, and whether it takes a new object."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.objects.changes import changes, format_path
from gpupool.pulumi_plugins.diff import drifted_inputs, replaces

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
    name = ("metadata", "name")
    assert replaces(name, "NodePool")
    assert replaces(name, "")
    assert not replaces(("metadata", "labels", "name"), "NodePool")
    data = ("data", "config.yaml")
    assert replaces(data, "ConfigMap")
    assert not replaces(data, "")
    assert not replaces(data, "ClusterPolicy")
    assert replaces(("spec",), "StatefulSet"), "removing a parent removes the field"


def test_the_servers_own_rewriting_is_no_drift() -> None:
    inputs = {"spec": {"cpu": "1000m", "nodes": "2"}, "metadata": {"labels": {"a": "1"}}}
    before = {"spec": {"cpu": "1", "nodes": "2", "defaulted": True}, "metadata": {"labels": {"a": "1"}}}
    assert drifted_inputs(inputs, before, before) == inputs
    now = {"spec": {"cpu": "1", "nodes": "9", "defaulted": False}, "metadata": {"labels": {"b": "2"}}}
    assert drifted_inputs(inputs, before, now) == {
        "spec": {"cpu": "1000m", "nodes": "9"},
        "metadata": {"labels": {}},
    }


def _live(spec: Any, *fields: Any) -> Any:
    rows = [{"manager": "m", "fieldsV1": {"f:spec": tree}} for tree in fields]
    return {"spec": spec, "metadata": {"managedFields": rows}}


@pytest.mark.parametrize(
    ("inputs", "now"),
    [
        (False, True),
        (0, 3),
        ("", "text"),
        ([], [{}]),
    ],
)
def test_what_the_server_left_out_as_empty_and_somebody_has_set_is_drift(inputs: Any, now: Any) -> None:
    before = _live({}, {"f:field": {}})
    assert drifted_inputs({"spec": {"field": inputs}}, before, _live({"field": now})) == {
        "spec": {"field": now}
    }
    assert drifted_inputs({"spec": {"field": inputs}}, before, before) == {"spec": {"field": inputs}}


def test_keys_of_others_in_a_mapping_that_we_left_empty_are_no_drift() -> None:
    inputs = {"spec": {"labels": {}}}
    now = _live({"labels": {"a": "1"}}, {"f:labels": {}}, {"f:labels": {".": {}, "f:a": {}}})
    assert drifted_inputs(inputs, _live({}), now) == inputs
    assert drifted_inputs(inputs, _live({"labels": {}}), now) == inputs


@pytest.mark.parametrize("ours", [{}, {"matchLabels": {"a": "1"}}])
def test_a_selector_is_one_value_and_a_field_more_changes_it(ours: Any) -> None:
    """The server says so by naming nothing below it."""
    stored = {**ours, "byDefault": "x"}
    edited = {**stored, "matchExpressions": [{"key": "no", "operator": "Exists"}]}
    inputs, now = {"spec": {"podSelector": ours}}, _live({"podSelector": edited}, {"f:podSelector": {}})
    before = _live({"podSelector": stored}, {"f:podSelector": {}})
    assert drifted_inputs(inputs, before, now) == {
        "spec": {"podSelector": {**ours, "matchExpressions": edited["matchExpressions"]}}
    }
    assert drifted_inputs(inputs, before, before) == inputs


def test_an_item_of_a_list_that_is_one_value_is_drift_where_it_has_a_field_more() -> None:
    inputs = {"spec": {"from": [{"podSelector": {}}]}}
    before = _live({"from": [{"podSelector": {}}]}, {"f:from": {}})
    wider = [{"podSelector": {}, "namespaceSelector": {}}]
    assert drifted_inputs(inputs, before, _live({"from": wider}, {"f:from": {}})) == {"spec": {"from": wider}}


@given(st.dictionaries(st.text(max_size=2), values))
def test_without_a_change_nothing_drifts(body: Any) -> None:
    assert drifted_inputs(body, body, body) == body
