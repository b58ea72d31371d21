"""A drawing shows every slice once, at its place and to scale: read back from what was drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.drawings import characters, characters_before_and_after, svg
from gpupool.environment.drawings.characters import BESIDE
from gpupool.environment.drawings.gpu import MAX_DRAWN, UNUSED, Block, drawing
from gpupool.environment.drawings.svg import EDGE, WIDTH
from gpupool.environment.sharing import (
    Exclusive,
    MigSharing,
    Mps,
    Sharing,
    TimeSlicing,
    maximal_layouts,
    sharing_modes,
    verdict,
)

MODELS = list(load_catalog().models.values())
SVG = "{http://www.w3.org/2000/svg}"


@st.composite
def partitioned(draw: st.DrawFn) -> tuple[GpuModel, MigSharing]:
    """A layout that can be placed: part of a maximal one."""
    gpu = draw(st.sampled_from([model for model in MODELS if model.mig]))
    whole = draw(st.sampled_from(maximal_layouts(gpu)))
    part = {name: draw(st.integers(0, count)) for name, count in whole.items()}
    return gpu, MigSharing({name: count for name, count in part.items() if count} or whole)


shared = st.tuples(
    st.sampled_from(MODELS),
    st.one_of(
        st.just(Exclusive()),
        st.builds(TimeSlicing, st.integers(2, 200)),
        st.builds(Mps, st.integers(2, 100)),
    ),
)
anything: st.SearchStrategy[tuple[GpuModel, Sharing]] = st.one_of(partitioned(), shared)


def covers(blocks: tuple[Block, ...]) -> bool:
    """Whether the blocks go from 0 to 1 from left to right without a gap or an overlap."""
    edges = [Fraction(0), *(block.end for block in blocks)]
    return edges[-1] == 1 and [block.start for block in blocks] == edges[:-1]


@given(anything)
def test_both_rows_are_covered_from_edge_to_edge(drawable: tuple[GpuModel, Sharing]) -> None:
    what = drawing(*drawable)
    assert covers(what.memory)
    assert covers(what.compute)


@given(partitioned())
def test_instances_lie_where_the_solver_puts_them(drawable: tuple[GpuModel, MigSharing]) -> None:
    gpu, sharing = drawable
    what = drawing(gpu, sharing)
    placed = [
        (block.label, block.start * what.memory_slices, (block.end - block.start) * what.memory_slices)
        for block in what.memory
        if block.kind != UNUSED
    ]
    assert placed == [(one.profile, one.start, one.size) for one in verdict(gpu, sharing.layout).placement]


@given(partitioned())
def test_characters_show_every_memory_slice_once(drawable: tuple[GpuModel, MigSharing]) -> None:
    gpu, sharing = drawable
    assert gpu.mig is not None
    lines = characters(gpu, sharing)
    axis, rule, body = lines[0], lines[1], lines[2]
    assert axis.split() == [str(number) for number in range(gpu.mig.slots)]
    cell, rest = divmod(len(rule) - 1, gpu.mig.slots)
    assert rest == 0, "every slice has the same width"
    walls = [column for column, character in enumerate(rule) if character == "+"]
    assert [column for column, character in enumerate(body) if character == "|"] == walls
    found = [(first // cell, (last - first) // cell) for first, last in pairwise(walls)]
    assert all(first % cell == 0 for first in walls)
    expected = [(one.start, one.size) for one in verdict(gpu, sharing.layout).placement]
    used = [place for place in found if "/" not in body[place[0] * cell : (place[0] + 1) * cell]]
    assert used == expected
    unused = [place for place in found if place not in used]
    assert all(size == 1 for _, size in unused)
    assert sum(size for _, size in found) == gpu.mig.slots


@given(partitioned())
def test_characters_have_a_mark_for_every_compute_slice(drawable: tuple[GpuModel, MigSharing]) -> None:
    gpu, sharing = drawable
    assert gpu.mig is not None
    used = sum(gpu.mig.profile(name).compute_slices * count for name, count in sharing.layout.items())
    marks = sum(line.count("#") for line in characters(gpu, sharing) if line.startswith("|"))
    assert marks == used


@given(anything)
def test_characters_are_plain_and_aligned(drawable: tuple[GpuModel, Sharing]) -> None:
    lines = characters(*drawable)
    assert all(line == line.rstrip() and line.isascii() for line in lines)
    boxes = [line for line in lines if line[0] in "+|"]
    assert len({len(line) for line in boxes}) <= 2, "whole rows, and the last that may be shorter"


@given(st.one_of(st.none(), anything), st.one_of(st.none(), anything))
def test_before_and_after_stay_within_their_width(
    before: tuple[GpuModel, Sharing] | None, after: tuple[GpuModel, Sharing] | None
) -> None:
    lines = characters_before_and_after(before, after)
    assert all(line == line.rstrip() and len(line) <= BESIDE for line in lines)
    assert sum("BEFORE" in line for line in lines) == sum("AFTER" in line for line in lines) == 1


@given(st.builds(TimeSlicing, st.integers(2, MAX_DRAWN)))
def test_every_replica_is_drawn_once(sharing: TimeSlicing) -> None:
    gpu = load_catalog()["t4"]
    cells = [line for line in characters(gpu, sharing) if line.startswith("|") and "GiB" not in line]
    numbers = [int(word) for line in cells for word in line.replace("|", " ").split() if word.isdecimal()]
    assert numbers == list(range(1, sharing.replicas + 1))


@given(anything)
def test_svg_tiles_both_rows_without_overlap(drawable: tuple[GpuModel, Sharing]) -> None:
    root = ElementTree.fromstring(svg(*drawable, "x"))
    what = drawing(*drawable)
    rows: dict[str, list[tuple[float, float]]] = {}
    for rectangle in root.iter(f"{SVG}rect"):
        rows.setdefault(rectangle.attrib["y"], []).append(
            (float(rectangle.attrib["x"]), float(rectangle.attrib["width"]))
        )
    assert [len(row) for row in rows.values()] == [len(what.memory), len(what.compute)]
    for row in rows.values():
        assert row[0][0] == EDGE
        for (x, width), (following, _) in pairwise(row):
            assert x + width == pytest.approx(following, abs=0.02)
        assert sum(width for _, width in row) == pytest.approx(WIDTH - 2 * EDGE, abs=0.01 * len(row))


@given(anything)
def test_svg_stands_alone_and_is_described(drawable: tuple[GpuModel, Sharing]) -> None:
    root = ElementTree.fromstring(svg(*drawable, "x"))
    ids = {element.attrib["id"]: element.text for element in root.iter() if "id" in element.attrib}
    assert root.attrib["role"] == "img"
    assert ids[root.attrib["aria-labelledby"]] == drawing(*drawable).title
    assert drawing(*drawable).note in str(ids[root.attrib["aria-describedby"]])
    allowed = {"svg", "title", "desc", "g", "rect", "path", "text"}
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= allowed
    assert not any("href" in name or name == "style" for element in root.iter() for name in element.attrib)


def test_every_sharing_mode_has_a_drawing() -> None:
    examples: dict[str, Sharing] = {
        "exclusive": Exclusive(),
        "time-slicing": TimeSlicing(2),
        "mps": Mps(2),
        "mig": MigSharing({"1g.10gb": 1}),
    }
    assert set(examples) == {mode.mode for mode in sharing_modes}
    for sharing in examples.values():
        assert drawing(load_catalog()["h100-80gb"], sharing).memory
