"""Capacity arithmetic of every sharing mode."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gpupool.catalog.models import load_catalog
from gpupool.sharing import Exclusive, MigSharing, Mps, Sharing, TimeSlicing, sharing_modes

A100 = load_catalog()["a100-80gb"]
T4 = load_catalog()["t4"]
BALANCED = MigSharing({"3g.40gb": 1, "2g.20gb": 2})


def test_every_mode_is_registered_once() -> None:
    assert [mode.mode for mode in sharing_modes] == ["exclusive", "time-slicing", "mps", "mig"]


@pytest.mark.parametrize(
    ("sharing", "slices", "equivalents"),
    [
        (Exclusive(), {"nvidia.com/gpu": 1}, {"nvidia.com/gpu": Fraction(1)}),
        (TimeSlicing(3), {"nvidia.com/gpu": 3}, {"nvidia.com/gpu": Fraction(1, 3)}),
        (Mps(4), {"nvidia.com/gpu": 4}, {"nvidia.com/gpu": Fraction(1, 4)}),
        (
            BALANCED,
            {"nvidia.com/mig-3g.40gb": 1, "nvidia.com/mig-2g.20gb": 2},
            {"nvidia.com/mig-3g.40gb": Fraction(1, 2), "nvidia.com/mig-2g.20gb": Fraction(1, 4)},
        ),
    ],
)
def test_slices_and_equivalents(
    sharing: Sharing, slices: dict[str, int], equivalents: dict[str, Fraction]
) -> None:
    assert sharing.slices_per_gpu(A100) == slices
    assert sharing.equivalents(A100) == equivalents
    assert sharing.problems(A100) == []


def test_equivalents_follow_memory_not_compute() -> None:
    """A 3g takes half the memory of the card, so it counts as half a GPU, though it has 3 of 7 compute
    slices.
    """
    whole = sum(
        BALANCED.equivalents(A100)[name] * count for name, count in BALANCED.slices_per_gpu(A100).items()
    )
    assert whole == 1


def test_rows_of_other_lengths() -> None:
    rtx, a30 = load_catalog()["rtx-pro-6000"], load_catalog()["a30"]
    assert MigSharing({"1g.24gb": 4}).equivalents(rtx) == {"nvidia.com/mig-1g.24gb": Fraction(1, 4)}
    assert MigSharing({"2g.12gb": 1}).equivalents(a30) == {"nvidia.com/mig-2g.12gb": Fraction(1, 2)}


def test_resource_names_have_no_plus_and_follow_the_drivers_spelling() -> None:
    rtx = load_catalog()["rtx-pro-6000"]
    layout = MigSharing({"1g.24gb+me.all": 1, "1g.24gb-me": 3})
    assert set(layout.slices_per_gpu(rtx)) == {"nvidia.com/mig-1g.24gb.me.all", "nvidia.com/mig-1g.24gb-me"}
    assert MigSharing({"7g.79gb": 1}).slices_per_gpu(A100) == {"nvidia.com/mig-7g.79gb": 1}


@pytest.mark.parametrize("replicas", [-1, 0, 1])
@pytest.mark.parametrize("mode", [TimeSlicing, Mps])
def test_replicas_start_at_two(mode: type[TimeSlicing | Mps], replicas: int) -> None:
    (problem,) = mode(replicas).problems(T4)
    assert str(replicas) in problem.message
    assert "2 or more" in problem.hint
    assert mode(2).problems(T4) == []


def test_mps_serves_48_clients_and_time_slicing_any_number() -> None:
    assert Mps(48).problems(T4) == []
    (problem,) = Mps(49).problems(T4)
    assert "48" in problem.hint
    assert TimeSlicing(49).problems(T4) == []


def test_mig_where_there_is_none() -> None:
    (problem,) = MigSharing({"1g.5gb": 1}).problems(T4)
    assert problem.message == "the NVIDIA T4 has no MIG"
    assert "time-slicing" in problem.hint


def test_an_impossible_layout_is_a_problem_with_the_nearest_as_hint() -> None:
    (problem,) = MigSharing({"3g.40gb": 2, "1g.10gb": 1}).problems(A100)
    assert "memory slices" in problem.message
    assert "{3g.40gb: 2}" in problem.hint
