"""Bars, what can't be drawn, and how labels are broken."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.drawings import Bar, bars, characters, characters_before_and_after, drawable, svg
from gpupool.environment.drawings.labels import pieces
from gpupool.environment.drawings.svg import WIDTH
from gpupool.environment.plan.changes.model import PoolState
from gpupool.environment.sharing import Exclusive, MigSharing, Mps, TimeSlicing

SVG = "{http://www.w3.org/2000/svg}"


def state(**fields: object) -> PoolState:
    """A pool of one node with two GPUs."""
    given = {
        "name": "p", "gpu": "h100-80gb", "gpu_title": "", "mode": "exclusive", "sharing": "", "layout": {},
        "instance_types": (), "nodes_max": 1, "warm": 0, "gpus_per_node": 2,
        "slices_per_node": {"nvidia.com/gpu": 2}, "slices_max": {}, "gpus_max": 2, "cost": None, **fields,
    }  # fmt: skip
    return PoolState(**given)  # type: ignore[arg-type]


def test_a_layout_without_a_place_is_not_drawn() -> None:
    gpu = load_catalog()["h100-80gb"]
    with pytest.raises(ValueError, match=r"h100-80gb can't be drawn: .* 9 memory slices"):
        characters(gpu, MigSharing({"3g.40gb": 2, "1g.10gb": 1}))
    with pytest.raises(ValueError, match=r"t4 can't be drawn: .* has no MIG"):
        svg(load_catalog()["t4"], MigSharing({"1g.5gb": 1}))


def test_a_pool_of_a_report_has_its_drawing() -> None:
    gpu = load_catalog()["h100-80gb"]
    assert drawable(state()) == (gpu, Exclusive())
    shared = {"nvidia.com/gpu": 6}
    assert drawable(state(mode="time-slicing", slices_per_node=shared)) == (gpu, TimeSlicing(3))
    assert drawable(state(mode="mps", slices_per_node=shared)) == (gpu, Mps(3))
    assert drawable(state(mode="mig", layout={"7g.80gb": 1})) == (gpu, MigSharing({"7g.80gb": 1}))


def test_what_this_version_does_not_know_has_none() -> None:
    assert drawable(None) is None
    assert drawable(state(gpu="h900")) is None
    assert drawable(state(mode="mig", layout={"9g.90gb": 1})) is None
    assert drawable(state(mode="mig", layout={"3g.40gb": 3})) is None
    assert drawable(state(mode="telepathy")) is None


def test_wide_drawings_go_below_each_other() -> None:
    gpu = load_catalog()["h100-80gb"]
    assert gpu.mig is not None
    long = replace(gpu.mig.profile("1g.10gb"), name="1g.10gb+everything")
    wide = replace(gpu, mig=replace(gpu.mig, profiles=(long,)))
    lines = characters_before_and_after((wide, MigSharing({long.name: 1})), (gpu, Exclusive()))
    assert lines.index("BEFORE") < lines.index("AFTER") - 5
    beside = characters_before_and_after((gpu, MigSharing({"1g.10gb": 1})), (gpu, Exclusive()))
    assert beside[0].split() == ["BEFORE", "AFTER"]


@pytest.mark.parametrize(
    ("label", "width", "lines"),
    [
        ("1g.10gb", 7, ["1g.10gb"]),
        ("1g.10gb", 6, ["1g.", "10gb"]),
        ("1g.24gb+me.all", 14, ["1g.24gb+me.all"]),
        ("1g.24gb+me.all", 13, ["1g.24gb", "+me.all"]),
        ("1g.24gb-me", 6, ["1g.", "24gb", "-me"]),
        ("", 0, [""]),
    ],
)
def test_a_label_breaks_where_its_parts_meet(label: str, width: int, lines: list[str]) -> None:
    assert pieces(label, width) == lines


amounts = st.floats(0, 1e9, allow_nan=False).map(lambda value: round(value, 2))


@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=4))
def test_bars_have_one_scale_and_stay_inside(values: list[tuple[float, float]]) -> None:
    lines = [
        Bar("before", min(pair), max(pair), f"${min(pair):,.0f} to ${max(pair):,.0f}") for pair in values
    ]
    root = ElementTree.fromstring(bars("Cost", lines, "c"))
    rectangles = list(root.iter(f"{SVG}rect"))
    widths = {
        name: [w(one) for one in rectangles if one.attrib["class"] == name] for name in ("least", "most")
    }
    pairs = [
        *zip([line.least for line in lines], widths["least"], strict=True),
        *zip([line.most for line in lines if line.most > line.least], widths["most"], strict=True),
    ]
    largest = max(line.most for line in lines) or 1
    scale = max((width for _, width in pairs), default=0) / largest
    for value, width in pairs:
        assert width == pytest.approx(value * scale, abs=0.02)
    assert all(float(one.attrib["x"]) + w(one) <= WIDTH for one in rectangles)


def w(rectangle: ElementTree.Element) -> float:
    return float(rectangle.attrib["width"])


def test_a_bar_says_its_figures_and_escapes_them() -> None:
    drawn = bars("Cost <b>", [Bar("before", 1, 2, "$1 & $2"), Bar("after", 2, 2, "$2")], "c")
    root = ElementTree.fromstring(drawn)
    title = root.find(f"{SVG}title")
    assert title is not None
    assert title.text == "Cost <b>: before: $1 & $2; after: $2"
    assert [one.attrib["class"] for one in root.iter(f"{SVG}rect")] == ["most", "least", "least"]
    assert "<b>" not in drawn
