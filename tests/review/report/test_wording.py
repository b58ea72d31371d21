"""Wording that depends on how many there are, and on what an environment has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.changes.model import SettingChange
from gpupool.review.report.environment_blocks import figures
from tests.review.report.plans import EKS, STATIC, Data, change, edited

CLASS = {"name": "train", "value": 500, "level": "high"}
KEEP = ["pools.shared.nodes.max", "pools.parted.labels", "gpuOperator.version", "karpenter.version"]


@pytest.mark.parametrize(
    ("most", "whose"), [(1, "up to 1 node is replaced; its"), (2, "2 nodes are replaced, 1 at")]
)
def test_one_node_and_several(most: int, whose: str, tmp_path: Path) -> None:
    base = edited(EKS, lambda data: data["pools"][1]["nodes"].update(max=most))
    found = change(tmp_path, base, lambda data: data["pools"][1].update(labels={"a": "b"})).risks
    assert whose in found[0].what
    assert ("their pods" in found[0].what) == (most > 1)


@pytest.mark.parametrize(
    ("warm", "said"), [(1, "1 node is started; it costs"), (2, "2 nodes are started; they cost")]
)
def test_one_warm_node_and_several(warm: int, said: str, tmp_path: Path) -> None:
    environment = change(tmp_path, EKS, lambda data: data["pools"][1]["nodes"].update(warm=warm))
    (effect,) = environment.effects
    assert effect.what.startswith(said)
    assert effect.reason == f"nodes.warm goes from 0 to {warm}"


@pytest.mark.parametrize("mig", [True, False])
def test_the_mig_manager_is_explained_where_there_is_one(mig: bool, tmp_path: Path) -> None:
    def partitioned(data: Data) -> None:
        data["pools"][1]["sharing"] = {"mode": "mig", "layout": {"3g.40gb": 2}}

    base = edited(STATIC, partitioned) if mig else STATIC
    (note,) = change(tmp_path, base, lambda data: data["pools"][0].update(labels={"a": "b"})).notes
    assert ("The MIG manager does not drain" in note) == mig


def test_a_setting_without_a_value_is_no_row(tmp_path: Path) -> None:
    found = change(tmp_path, EKS, lambda data: data.update(priorities=[CLASS])).settings
    assert found
    assert all(field.before or field.after for field in found)


def settings(root: Path, before: Any, after: Any) -> tuple[SettingChange, ...]:
    """What is said of a list that was `before` and is `after`."""
    base = edited(EKS, lambda data: data.update(gpuOperator={"values": {"given": before}}))
    return change(root, base, lambda data: data["gpuOperator"].update(values={"given": after})).settings


def test_a_list_is_described_by_added_and_removed_items(tmp_path: Path) -> None:
    name = "gpuOperator.values.given"
    assert settings(tmp_path, KEEP, [*KEEP[1:], "new"]) == (
        SettingChange(name, KEEP[0], None),
        SettingChange(name, None, "new"),
    )
    assert settings(tmp_path, [], ["new"]) == (SettingChange(name, None, "new"),)
    assert settings(tmp_path, ["a", "b"], ["b", "a"]) == (SettingChange(name, '["a", "b"]', '["b", "a"]'),)
    (long,) = settings(tmp_path, ["a"], ["a", "b" * 500])
    assert long.after is not None
    assert len(long.after) == 160


def test_a_cost_that_stays_is_not_written_twice(tmp_path: Path) -> None:
    environment = change(tmp_path, EKS, lambda data: data["pools"][0].update(labels={"a": "b"}))
    (shown,) = [figure for figure in figures(environment) if figure.always or not figure.same]
    assert (shown.name, shown.same) == ("cost a month", True)
    assert shown.before.startswith("$")


def test_days_of_a_window_are_in_the_order_of_a_week(tmp_path: Path) -> None:
    def edit(data: Data) -> None:
        data["pools"][0]["maintenance"] = {"window": "Sun,Sat,Mon 02:00-06:00 UTC"}

    (pool,) = change(tmp_path, EKS, edit).changed_pools
    (field,) = pool.fields
    assert field.after == "Mon,Sat,Sun 02:00-06:00 UTC"


LONG = "a" * 300


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{LONG}b", f"{LONG}c"),
        (f"{LONG}b{LONG}", f"{LONG}c{LONG}"),
        (LONG, f"{LONG}c"),
        ([f"{LONG}b"], [f"{LONG}c"]),
        (["x" * 500, f"{LONG}b{LONG}"], ["x" * 500, f"{LONG}c"]),
    ],
)
def test_long_values_that_differ_late_are_cut_around_the_difference(
    tmp_path: Path, before: Any, after: Any
) -> None:
    found = settings(tmp_path, before, after)
    shown = [text for change in found for text in (change.before, change.after) if text is not None]
    assert len(shown) == len(set(shown)) == 2
    assert all(len(text) <= 160 and text.startswith("...") for text in shown)
    assert "aac" in shown[1]
