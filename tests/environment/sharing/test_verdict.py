"""Known good and bad MIG layouts, what is said of the bad ones, and counts computed elsewhere."""

from __future__ import annotations

import pytest

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.sharing import maximal_layouts, verdict
from gpupool.environment.sharing.placement import feasible

CATALOG = load_catalog()
A100 = CATALOG["a100-80gb"]
WITH_MIG = [model for model in CATALOG.models.values() if model.mig]

FITS = [
    {"2g.20gb": 3, "1g.10gb": 1},
    {"3g.40gb": 1, "2g.20gb": 2},
    {"1g.10gb": 7},
    {"4g.40gb": 1, "3g.40gb": 1},
    {"3g.40gb": 1, "4g.40gb": 1},
    {"3g.40gb": 1, "1g.10gb": 4},
    {"2g.20gb": 3, "1g.20gb": 1},
    {"1g.20gb": 1, "1g.10gb": 6},
    {"1g.10gb": 6, "1g.10gb+me": 1},
    {"7g.79gb": 1},
]
FITS_NOT = [
    {"3g.40gb": 2, "1g.10gb": 1},
    {"1g.20gb": 4, "1g.10gb": 3},
    {"4g.40gb": 1, "2g.20gb": 2},
    {"2g.20gb": 4},
    {"4g.40gb": 2},
    {"1g.10gb": 8},
    {"3g.40gb": 1, "2g.20gb": 2, "1g.10gb": 1},
    {"3g.40gb": 1, "1g.10gb": 5},
    {"7g.80gb": 1, "1g.10gb": 1},
    {"7g.80gb": 1, "1g.10gb+me": 1},
    {"1g.10gb+me": 2},
]
# What mig-parted v0.15.0 and gpu-operator v26.7.0 ship as all-<profile>, at each profile's maximum.
SHIPPED = {
    "a100-40gb": "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
    "a100-80gb": "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "h100-80gb": "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb",
    "a30": "1g.6gb 1g.6gb+me 2g.12gb 2g.12gb+me 4g.24gb",
    "h100-nvl": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
    "gh200-96gb": "1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
    "gh200-144gb": "1g.18gb 1g.18gb+me 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb",
    "h200": "1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
    "b200": "1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
    "gb200": "1g.23gb 1g.23gb+me 1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb 3g.95gb 4g.95gb 7g.189gb",
    "b300": "1g.34gb 1g.34gb+me 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb",
    "gb300": "1g.35gb 1g.35gb+me 1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb",
    "rtx-pro-6000": "1g.24gb 1g.24gb+gfx 1g.24gb+me 1g.24gb+me.all 1g.24gb-me"
    " 2g.48gb 2g.48gb+gfx 2g.48gb+me.all 2g.48gb-me 4g.96gb 4g.96gb+gfx",
}
MAX_PER_SHAPE = {"1g": 7, "2g": 3, "3g": 2, "4g": 1, "7g": 1}


@pytest.mark.parametrize("layout", FITS, ids=str)
def test_known_good(layout: dict[str, int]) -> None:
    found = verdict(A100, layout)
    assert found.fits
    assert not found.reason
    assert not found.nearest
    assert len(found.placement) == sum(layout.values())


@pytest.mark.parametrize("layout", FITS_NOT, ids=str)
def test_known_bad(layout: dict[str, int]) -> None:
    found = verdict(A100, layout)
    assert not found.fits
    assert found.reason
    assert not found.placement
    assert found.nearest


def test_the_only_place_for_3g_beside_two_2g() -> None:
    placement = verdict(A100, {"3g.40gb": 1, "2g.20gb": 2}).placement
    assert [(placed.profile, placed.start, placed.size) for placed in placement] == [
        ("2g.20gb", 0, 2),
        ("2g.20gb", 2, 2),
        ("3g.40gb", 4, 4),
    ]


@pytest.mark.parametrize(("key", "names"), SHIPPED.items())
def test_shipped_layouts_fit_and_one_more_does_not(key: str, names: str) -> None:
    model = CATALOG[key]
    assert model.mig is not None
    for name in names.split():
        count = model.mig.profile(name).max_count
        assert verdict(model, {name: count}).fits, name
        assert not verdict(model, {name: count + 1}).fits, name


@pytest.mark.parametrize("key", [key for key in SHIPPED if key not in ("a30", "rtx-pro-6000")])
def test_maxima_of_the_eight_slice_family(key: str) -> None:
    """The counts that `all-<profile>` has in the shipped files; the double-memory 1g is 4, 1g+me is 1."""
    mig = CATALOG[key].mig
    assert mig is not None
    for profile in mig.profiles:
        shape = profile.name.split(".")[0]
        expected = {20: 1, 15: 4}.get(profile.nvml_id, MAX_PER_SHAPE[shape])
        assert profile.max_count == expected, profile.name


@pytest.mark.parametrize("model", WITH_MIG, ids=lambda model: model.key)
def test_all_balanced_fits(model: object) -> None:
    """7-slice GPUs: 2 x 1g, 2g, 3g; 4-slice GPUs: 2 x 1g, 2g (mig-parted v0.15.0 pkg/mig/builder).
    GPUs of two halves have no such layout."""
    found = CATALOG[getattr(model, "key", "")]
    assert found.mig is not None
    if found.mig.slots == 2:
        return
    plain = {
        one.name.split(".")[0]: one.name
        for one in reversed(found.mig.profiles)
        if not one.attribute and one.nvml_id != 15
    }
    layout = {plain["1g"]: 2, plain["2g"]: 1} | ({plain["3g"]: 1} if "3g" in plain else {})
    assert verdict(found, layout).fits


@pytest.mark.parametrize(
    ("layout", "fits"),
    [
        ({"1g.16gb": 2}, True),
        ({"1g.16gb": 1, "1g.16gb-me": 1}, True),
        ({"1g.16gb+me.all": 1, "1g.16gb-me": 1}, True),
        ({"1g.16gb+me.all": 1, "1g.16gb": 1}, False),  # the first has taken all media engines
        ({"2g.32gb": 1}, True),
        ({"2g.32gb": 1, "1g.16gb-me": 1}, False),
        ({"1g.16gb": 3}, False),
    ],
)
def test_a_gpu_of_two_halves(layout: dict[str, int], fits: bool) -> None:
    """RTX PRO 4500 Blackwell (NVIDIA MIG user guide v610, supported MIG profiles)."""
    assert verdict(CATALOG["rtx-pro-4500"], layout).fits == fits


def test_counts_of_an_independent_solver() -> None:
    """A100 80 GB: 37 layouts with the five classic profiles, 12 maximal; with 1g.20gb 77 and 28."""
    assert A100.mig is not None
    names = [profile.name for profile in A100.mig.profiles]
    me, double = names.index("1g.10gb+me"), names.index("1g.20gb")
    without_me = [counts for counts in feasible(A100.mig) if not counts[me] and any(counts)]
    classic = [counts for counts in without_me if not counts[double]]
    assert (len(classic), len(without_me)) == (37, 77)
    no_me = [layout for layout in maximal_layouts(A100) if "1g.10gb+me" not in layout]
    assert len(no_me) == 28
    assert len([layout for layout in no_me if "1g.20gb" not in layout]) == 12
    assert len(maximal_layouts(A100)) == 44


@pytest.mark.parametrize(("key", "plain"), [("a30", 4), ("rtx-pro-6000", 4)])
def test_four_slice_gpus(key: str, plain: int) -> None:
    mig = CATALOG[key].mig
    assert mig is not None
    layouts = [
        layout
        for layout in maximal_layouts(CATALOG[key])
        if not any(mig.profile(name).attribute for name in layout)
    ]
    assert len(layouts) == plain


def test_media_engines() -> None:
    rtx, a30 = CATALOG["rtx-pro-6000"], CATALOG["a30"]
    assert verdict(rtx, {"1g.24gb+me.all": 1, "1g.24gb-me": 3}).fits
    greedy = verdict(rtx, {"1g.24gb+me.all": 1, "1g.24gb": 1})
    assert not greedy.fits
    assert "NVDEC" in greedy.reason
    assert greedy.nearest[0] == {"1g.24gb+me.all": 1, "1g.24gb-me": 3}
    assert verdict(rtx, {"1g.24gb+me": 1, "1g.24gb+gfx": 3}).fits
    assert not verdict(a30, {"2g.12gb+me": 1, "1g.6gb+me": 1}).fits
    assert verdict(a30, {"2g.12gb+me": 1, "1g.6gb": 2}).fits


@pytest.mark.parametrize(
    ("gpu", "layout", "reason"),
    [
        ("t4", {"1g.5gb": 1}, "the NVIDIA T4 has no MIG"),
        ("a100-80gb", {}, "the layout names no profile"),
        ("a100-80gb", {"1g.10gb": 0}, "1g.10gb: expected a whole number of 1 or more, got 0"),
        ("a100-80gb", {"1g.10gb": -2}, "1g.10gb: expected a whole number of 1 or more, got -2"),
        (
            "a100-80gb",
            {"1g.10gb": 10**9},
            "1000000000 x 1g.10gb requested, but one GPU has at most 7",
        ),
        (
            "a100-80gb",
            {"3g.40gb": 2, "1g.10gb": 1},
            (
                "2 x 3g.40gb (4 each) + 1 x 1g.10gb (1) need 9 memory slices and the GPU has 8;"
                " compute slices would be enough (7 of 7)"
            ),
        ),
        (
            "a100-80gb",
            {"4g.40gb": 1, "2g.20gb": 2},
            (
                "1 x 4g.40gb + 2 x 2g.20gb need 8 compute slices and the GPU has 7;"
                " 2g.20gb takes 2 memory slices and may start only at 0, 2, 4,"
                " but beside 4g.40gb at 0 and 2g.20gb at 4 only slices 6, 7 are free"
            ),
        ),
        (
            "a100-80gb",
            {"1g.5gb": 1},
            "1g.5gb is a profile of the NVIDIA A100 40 GB; on the NVIDIA A100 80 GB it is 1g.10gb",
        ),
        (
            "a100-80gb",
            {"1g.6gb": 1},
            (
                "1g.6gb is a profile of the NVIDIA A30; the NVIDIA A100 80 GB has"
                " 1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb"
            ),
        ),
        (
            "a100-80gb",
            {"3g.40g": 1},
            "the NVIDIA A100 80 GB has no MIG profile '3g.40g'; did you mean 3g.40gb or 4g.40gb?",
        ),
        (
            "a100-80gb",
            {"3g.40gb": 1, "3g.39gb": 1},
            "3g.40gb and 3g.39gb are names of one profile in different drivers; use one of them",
        ),
    ],
    ids=str,
)
def test_reasons(gpu: str, layout: dict[str, int], reason: str) -> None:
    assert verdict(CATALOG[gpu], layout).reason == reason


def test_nearest_keeps_most_of_the_request() -> None:
    nearest = verdict(A100, {"3g.40gb": 2, "1g.10gb": 1}).nearest
    assert nearest[0] == {"3g.40gb": 2}
    assert {"3g.40gb": 1, "1g.10gb": 4} in nearest
    assert {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2} in nearest
    assert {"4g.40gb": 1, "3g.40gb": 1} in nearest


def test_nearest_prefers_more_instances_at_equal_memory() -> None:
    nearest = verdict(A100, {"3g.40gb": 2, "1g.10gb": 4}).nearest
    assert nearest[:2] == ({"3g.40gb": 1, "1g.10gb": 4}, {"3g.40gb": 2})


def test_a_layout_in_another_models_names_is_translated() -> None:
    assert verdict(A100, {"3g.20gb": 1, "2g.10gb": 2}).nearest == ({"3g.40gb": 1, "2g.20gb": 2},)


def test_placement_uses_the_names_that_were_given() -> None:
    (placed,) = verdict(A100, {"7g.79gb": 1}).placement
    assert placed.profile == "7g.79gb"
