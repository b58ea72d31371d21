"""Whose taint is whose: arithmetic on what a node says, without a cluster."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpupool.live.objects.static_nodes import OWN_TAINTS_ANNOTATION, conflicts, fit, own_taints

taints = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["gpu", "dedicated", "gpupool.dev/pool", "fan"]),
            "value": st.sampled_from(["true", "mig", ""]),
            "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
        }
    ),
    unique_by=lambda taint: (taint["key"], taint["effect"]),
    max_size=4,
)


def node(taints: Any, labels: Any = None, annotations: Any = None) -> dict[str, Any]:
    metadata = {"name": "n", "labels": labels or {}, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"taints": list(taints)}}


def patch(taints: Any, labels: Any = None) -> dict[str, Any]:
    return {"metadata": {"name": "n", "labels": labels or {}}, "spec": {"taints": list(taints)}}


def applied(live: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """What the node looks like once the patch is on it."""
    fitted = fit(live, body)
    return node(fitted["spec"]["taints"], annotations=fitted["metadata"]["annotations"])


def as_set(taints: Any) -> set[tuple[str, ...]]:
    return {(taint["key"], taint.get("value", ""), taint["effect"]) for taint in taints}


@given(taints, taints)
def test_a_nodes_own_taints_are_known_while_we_are_there(own: Any, ours: Any) -> None:
    there = applied(node(own), patch(ours))
    assert as_set(own_taints(there)) == as_set(own)
    assert as_set(there["spec"]["taints"]) >= as_set(own)


@given(taints, taints, taints)
def test_and_through_changes_of_ours(own: Any, first: Any, second: Any) -> None:
    there = applied(applied(node(own), patch(first)), patch(second))
    assert as_set(own_taints(there)) == as_set(own)


@given(taints, taints)
def test_applying_twice_is_applying_once(own: Any, ours: Any) -> None:
    once = fit(node(own), patch(ours))
    assert fit(applied(node(own), patch(ours)), patch(ours)) == once


def test_lifecycle_taints_are_the_controllers_business() -> None:
    lifecycle = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert own_taints(node([lifecycle])) == []
    assert fit(node([lifecycle]), patch([]))["metadata"]["annotations"][OWN_TAINTS_ANNOTATION] == "[]"


def test_another_value_of_somebody_else_is_a_conflict() -> None:
    live = node([{"key": "gpu", "value": "theirs", "effect": "NoSchedule"}], labels={"rack": "r1"})
    ours = patch([{"key": "gpu", "value": "true", "effect": "NoSchedule"}], labels={"rack": "r2"})
    found = conflicts(live, ours)
    assert len(found) == 2
    assert 'label rack is "r1"' in found[0]
    assert 'gpu="theirs":NoSchedule' in found[1]
    assert conflicts(live, patch(live["spec"]["taints"], labels={"rack": "r1"})) == []


def test_the_operators_own_default_is_elsewhere_choice() -> None:
    live = node([], labels={"nvidia.com/mig.config": "all-disabled"})
    assert conflicts(live, patch([], labels={"nvidia.com/mig.config": "2x3g.40gb"})) == []
    live = node([], labels={"nvidia.com/mig.config": "all-1g.10gb"})
    assert len(conflicts(live, patch([], labels={"nvidia.com/mig.config": "2x3g.40gb"}))) == 1


def test_a_label_that_we_set_ourselves_may_change() -> None:
    live = node([], labels={"rack": "r1"})
    live["metadata"]["managedFields"] = [
        {
            "manager": "gpupool",
            "operation": "Apply",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:rack": {}}}},
        }
    ]
    assert conflicts(live, patch([], labels={"rack": "r2"})) == []
