"""Changes read as what was done to an object, not as what the places of a list hold now."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpupool.live.objects.field_changes import FieldChange, field_changes


def toleration(pool: str) -> dict[str, str]:
    return {"key": "gpupool.dev/pool", "value": pool}


def reported(old: Any, new: Any) -> list[str]:
    return [str(change) for change in field_changes({"spec": old}, {"spec": new})]


def test_an_item_more_or_less_is_one_line() -> None:
    few = [toleration("a"), toleration("c")]
    many = [toleration("a"), toleration("b"), toleration("c")]
    assert reported(few, many) == ["spec[1]: (none) -> key: gpupool.dev/pool, value: b"]
    assert reported(many, few) == ["spec[1]: key: gpupool.dev/pool, value: b -> (none)"]


def test_items_with_names_of_their_own_are_compared_by_name() -> None:
    old = [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]
    new = [{"name": "c", "image": "z:1"}, {"name": "b", "image": "y:2"}]
    assert reported(old, new) == [
        "spec[0]: name: a, image: x:1 -> (none)",
        "spec[0]: (none) -> name: c, image: z:1",
        "spec[1].image: y:1 -> y:2",
    ]


def test_plain_lists_are_compared_place_by_place() -> None:
    assert reported(["a", "b"], ["a", "c"]) == ["spec[1]: b -> c"]


def test_values_are_written_as_yaml_and_not_as_python() -> None:
    assert str(FieldChange("actions", ["Deny"], ["Audit"])) == "actions: [Deny] -> [Audit]"
    assert str(FieldChange("on", True, None)) == "on: true -> (none)"
    budgets = [{"nodes": "0", "reasons": ["Drifted"]}]
    assert str(FieldChange("budgets", None, budgets)) == "budgets: (none) -> [{nodes: 0, reasons: [Drifted]}]"


def test_long_values_that_begin_alike_are_shown_where_they_part() -> None:
    long = "object.spec.containers.all(c, has(c.resources)) && "
    reported = str(FieldChange("expression", long * 2 + "a", long * 2 + "b || true"))
    assert reported == "expression: ... && a -> ... && b || true"
    peers = [{"podSelector": {"matchLabels": {"name": letter * 40}}} for letter in "abc"]
    longer = str(FieldChange("from", peers[:2], peers))
    before, after = longer.removeprefix("from: ").split(" -> ")
    assert before != after
    one_word = str(FieldChange("hash", "f" * 90 + "old", "f" * 90 + "new"))
    assert one_word == f"hash: ...{'f' * 20}old -> ...{'f' * 20}new"


def test_long_values_are_shown_where_they_differ_and_not_cut_there() -> None:
    slots = [f"nvidia.com/mig-{n}g.{n}0gb={n}" for n in range(1, 8)]
    fewer = [*slots[:3], "nvidia.com/mig-4g.40gb=9", *slots[4:]]
    assert str(FieldChange("capacity", " ".join(slots), " ".join(fewer))) == (
        "capacity: ... nvidia.com/mig-3g.30gb=3 nvidia.com/mig-4g.40gb=4 nvidia.com/mig-5g.50gb=5 ... -> "
        "... nvidia.com/mig-3g.30gb=3 nvidia.com/mig-4g.40gb=9 nvidia.com/mig-5g.50gb=5 ..."
    )


def test_an_empty_value_is_not_nothing() -> None:
    assert str(FieldChange("podSelector", {}, None)) == "podSelector: {} -> (none)"
    assert str(FieldChange("registries", "", None)) == 'registries: "" -> (none)'
    assert str(FieldChange("apiGroups", [""], ["", "apps"])) == 'apiGroups: [""] -> ["", apps]'


leaves = st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2)
items: Any = st.lists(
    st.dictionaries(st.sampled_from(["name", "key", "value"]), leaves, max_size=3), max_size=4
)


@given(items, items)
def test_what_differs_is_reported_and_nothing_else(old: Any, new: Any) -> None:
    """Also where only the order differs: the engine calls that an update, and it must not look empty."""
    assert bool(reported(old, new)) == (repr(_canonical(old)) != repr(_canonical(new)))


def _canonical(rows: Any) -> Any:
    return [sorted(row.items()) for row in rows]
