"""The MIG solver against an independent brute force on every multiset, and what must hold for any layout."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.catalog.models import GpuModel, Mig
from gpupool.environment.sharing import maximal_layouts, verdict
from gpupool.environment.sharing.placement import feasible, maximal, place, within_limits
from tests.selection import some

MODELS = [model for model in load_catalog().models.values() if model.mig]
SOME = some("sharing", MODELS, 4)
"""Those whose every arrangement is tried."""
Row = tuple[tuple[int, int], ...]
"""Instances from left to right, as (start, index of the profile)."""


def mig_of(model: GpuModel) -> Mig:
    assert model.mig is not None
    return model.mig


def rows(mig: Mig, slot: int = 0) -> Iterator[Row]:
    """Brute force: every way to fill the row, decided slice by slice from left to right.

    Where the solver asks of a multiset whether it has a place, this writes down all arrangements there are
    and sees which multisets occur; it shares no code with the solver.
    """
    if slot >= mig.slots:
        yield ()
        return
    yield from rows(mig, slot + 1)
    for index, profile in enumerate(mig.profiles):
        if slot in profile.starts:
            for rest in rows(mig, slot + profile.size):
                yield ((slot, index), *rest)


def allowed(mig: Mig, row: Row) -> bool:
    """Per-profile maxima and media engines; compute slices are left out on purpose: places imply them."""
    used = [index for _, index in row]
    if any(used.count(index) > profile.max_count for index, profile in enumerate(mig.profiles)):
        return False
    return all(
        sum((mig.profiles[index].engines or {}).get(engine, 0) for index in used) <= most
        for engine, most in (mig.engine_budget or {}).items()
    )


def as_counts(mig: Mig, row: Row) -> tuple[int, ...]:
    used = [index for _, index in row]
    return tuple(used.count(index) for index in range(len(mig.profiles)))


@pytest.mark.parametrize("model", SOME, ids=lambda model: model.key)
def test_solver_and_brute_force_agree_on_every_multiset(model: GpuModel) -> None:
    mig = mig_of(model)
    truth = {as_counts(mig, row) for row in rows(mig) if allowed(mig, row)}
    assert feasible(mig) == truth
    for counts in itertools.product(*(range(profile.max_count + 2) for profile in mig.profiles)):
        decided = within_limits(mig, counts) and place(mig, counts) is not None
        assert decided == (counts in truth), counts


@pytest.mark.parametrize("model", SOME, ids=lambda model: model.key)
def test_maximal_means_that_nothing_can_be_added(model: GpuModel) -> None:
    mig = mig_of(model)
    truth = {as_counts(mig, row) for row in rows(mig) if allowed(mig, row)}

    def larger(counts: tuple[int, ...]) -> bool:
        return any(
            other != counts and all(a >= b for a, b in zip(other, counts, strict=True)) for other in truth
        )

    assert set(maximal(mig)) == {counts for counts in truth if not larger(counts)}
    assert len(maximal_layouts(model)) == len(maximal(mig))


def test_the_brute_force_itself_against_published_numbers() -> None:
    """19 maximal arrangements of the five classic profiles of an A100, counting positions separately."""
    mig = mig_of(load_catalog()["a100-80gb"])
    classic = [index for index, profile in enumerate(mig.profiles) if profile.nvml_id not in (15, 20)]
    found = {frozenset(row) for row in rows(mig) if all(index in classic for _, index in row)}
    assert len([one for one in found if not any(one < other for other in found)]) == 19


models = st.sampled_from(MODELS)


@st.composite
def requests(draw: st.DrawFn) -> tuple[GpuModel, dict[str, int]]:
    model = draw(models)
    names = [profile.name for profile in mig_of(model).profiles]
    return model, draw(st.dictionaries(st.sampled_from(names), st.integers(1, 5), min_size=1, max_size=4))


@st.composite
def legal(draw: st.DrawFn) -> tuple[GpuModel, dict[str, int]]:
    model = draw(models)
    return model, dict(draw(st.sampled_from(maximal_layouts(model))))


@given(legal(), st.data())
def test_a_legal_layout_stays_legal_when_a_part_is_removed(
    case: tuple[GpuModel, dict[str, int]], data: st.DataObject
) -> None:
    model, layout = case
    while layout:
        assert verdict(model, layout).fits
        name = data.draw(st.sampled_from(sorted(layout)))
        layout[name] -= 1
        if not layout[name]:
            del layout[name]


@given(requests())
def test_a_placement_is_what_was_asked_and_legal(case: tuple[GpuModel, dict[str, int]]) -> None:
    model, layout = case
    found = verdict(model, layout)
    if not found.fits:
        return
    taken: set[int] = set()
    for placed in found.placement:
        profile = mig_of(model).profile(placed.profile)
        slices = set(range(placed.start, placed.start + placed.size))
        assert placed.start in profile.starts
        assert placed.size == profile.size
        assert not slices & taken
        assert max(slices) < mig_of(model).slots
        taken |= slices
    names = [placed.profile for placed in found.placement]
    assert {name: names.count(name) for name in names} == layout


@given(requests())
def test_a_refusal_has_one_sentence_and_legal_alternatives(case: tuple[GpuModel, dict[str, int]]) -> None:
    model, layout = case
    found = verdict(model, layout)
    if found.fits:
        return
    assert found.reason
    assert "\n" not in found.reason
    assert 1 <= len(found.nearest) <= 5
    assert len({tuple(sorted(near.items())) for near in found.nearest}) == len(found.nearest)
    for near in found.nearest:
        assert verdict(model, near).fits
    sizes = {profile.name: profile.size for profile in mig_of(model).profiles}
    kept = [
        (
            sum(min(layout.get(name, 0), count) * sizes[name] for name, count in near.items()),
            sum(min(layout.get(name, 0), count) for name, count in near.items()),
        )
        for near in found.nearest
    ]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > (0, 0)


@given(models, st.dictionaries(st.text(), st.integers(), max_size=3))
def test_no_layout_makes_it_fail(model: GpuModel, layout: dict[str, int]) -> None:
    found = verdict(model, layout)
    assert found.fits or found.reason
