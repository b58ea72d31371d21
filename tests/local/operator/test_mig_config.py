"""mig-parted's format, read strictly, and a partitioner that works by orders of creation."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.catalog.models import GpuModel
from gpupool.local.operator import mig_config
from gpupool.local.operator.hardware import Hardware
from gpupool.local.operator.mig_config import NotPlaceable
from gpupool.local.operator.strict_yaml import ConfigError

CATALOG = load_catalog()
A100 = CATALOG["a100-80gb"]
PARTITIONABLE = [model for model in CATALOG.models.values() if model.mig is not None]

# Known good and bad layouts of an A100 80 GB: NVIDIA MIG user guide (placements), k8s-test-infra issue 886.
ANSWERS = [
    ({"3g.40gb": 2, "1g.10gb": 1}, False),
    ({"2g.20gb": 3, "1g.10gb": 1}, True),
    ({"3g.40gb": 1, "2g.20gb": 2}, True),
    ({"1g.10gb": 7}, True),
    ({"4g.40gb": 1, "3g.40gb": 1}, True),
    ({"3g.40gb": 1, "1g.10gb": 4}, True),
    ({"1g.20gb": 4, "1g.10gb": 3}, False),
    ({"4g.40gb": 1, "2g.20gb": 2}, False),
    ({"2g.20gb": 3, "1g.20gb": 1}, True),
    ({"1g.20gb": 1, "1g.10gb": 6}, True),
    ({"2g.20gb": 4}, False),
    ({"4g.40gb": 2}, False),
    ({"1g.10gb": 8}, False),
    ({"3g.40gb": 1, "2g.20gb": 2, "1g.10gb": 1}, False),
    ({"3g.40gb": 1, "1g.10gb": 5}, False),
    ({"7g.80gb": 1, "1g.10gb": 1}, False),
    ({"1g.10gb+me": 1, "1g.10gb": 6}, True),
    ({"1g.10gb+me": 2}, False),
]


def placed(model: GpuModel, layout: dict[str, int]) -> bool:
    try:
        mig_config.partition(model, layout)
    except NotPlaceable:
        return False
    return True


@pytest.mark.parametrize(("layout", "fits"), ANSWERS)
def test_known_layouts(layout: dict[str, int], fits: bool) -> None:
    assert placed(A100, layout) is fits


def test_numbers_of_layouts_of_an_a100() -> None:
    """37 sets of the five classic profiles can be placed, 77 with the double-memory one."""
    classic = ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]
    ranges = [range(8), range(4), range(3), range(2), range(2), range(5)]
    counts = Counter()
    for numbers in product(*ranges):
        layout = {name: count for name, count in zip([*classic, "1g.20gb"], numbers, strict=True) if count}
        if layout and placed(A100, layout):
            counts["all"] += 1
            counts["classic"] += numbers[5] == 0
    assert counts == {"all": 77, "classic": 37}


@st.composite
def layouts(draw: st.DrawFn) -> tuple[GpuModel, dict[str, int]]:
    model = draw(st.sampled_from(PARTITIONABLE))
    assert model.mig is not None
    names = st.sampled_from([profile.name for profile in model.mig.profiles])
    return model, dict(draw(st.dictionaries(names, st.integers(1, 8), min_size=1, max_size=4)))


@given(layouts())
def test_what_is_placed_is_legal_and_what_is_smaller_stays_so(case: tuple[GpuModel, dict[str, int]]) -> None:
    model, layout = case
    assert model.mig is not None
    if not placed(model, layout):
        return
    used: set[int] = set()
    instances = mig_config.partition(model, layout)
    for name, start in instances:
        profile = model.mig.profile(name)
        slots = set(range(start, start + profile.size))
        assert start in profile.starts
        assert not slots & used
        assert max(slots) < model.mig.slots
        used |= slots
    assert Counter(name for name, _ in instances) == layout
    for name in layout:
        smaller = {key: count - (key == name) for key, count in layout.items()}
        assert placed(model, {key: count for key, count in smaller.items() if count})


def test_wanted_layouts_by_gpu() -> None:
    text = """
version: v1
mig-configs:
  half:
    - {devices: [0, 2], mig-enabled: true, mig-devices: {7g.80gb: 1}}
    - {devices: [1, 3], mig-enabled: false}
  filtered:
    - {devices: all, device-filter: ["0x20B210DE"], mig-enabled: true, mig-devices: {1g.10gb: 7}}
    - {devices: all, device-filter: "0x233010DE", mig-enabled: true, mig-devices: {7g.80gb: 1}}
"""
    hardware = Hardware(A100, 4, 81920, "p4de")
    assert mig_config.wanted(text, "half", hardware) == [{"7g.80gb": 1}, None, {"7g.80gb": 1}, None]
    assert mig_config.wanted(text, "filtered", hardware) == [{"1g.10gb": 7}] * 4
    assert mig_config.wanted(None, "all-1g.10gb.me", hardware) == [{"1g.10gb+me": 1}] * 4
    assert mig_config.wanted(None, "all-disabled", hardware) == [None] * 4


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{devices: all, mig-enabled: true, mig-devices: {9g.999gb: 1}}", "9g.999gb"),
        ("{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 0}}", "of 1 or more"),
        ("{devices: [], mig-enabled: true}", "devices"),
        ("{devices: [0, 0], mig-enabled: true}", "different"),
        ("{devices: [-1], mig-enabled: true}", "devices"),
        ("{devices: [8], mig-enabled: true}", "the node has 8 GPUs"),
        ("{devices: all, mig-enabled: yes please}", "true or false"),
        ("{devices: all, mig-enabled: false, mig-devices: {3g.40gb: 1}}", "without mig-enabled"),
        ("{devices: all, device-filter: A100, mig-enabled: true}", "PCI ids"),
        ("{devices: all, mig-enabled: true, mig-device: {}}", "unknown mig-device"),
        ("{devices: all, mig-enabled: true}, {devices: [1], mig-enabled: false}", "more than one entry"),
    ],
)
def test_what_can_not_be_meant_is_refused(entry: str, said: str) -> None:
    text = f"version: v1\nmig-configs: {{it: [{entry}]}}\n"
    with pytest.raises(ConfigError, match=said):
        mig_config.wanted(text, "it", Hardware(A100, 8, 81920, "p4de"))


@pytest.mark.parametrize(
    "text", ["", "[]", "version: v2\nmig-configs: {}", "version: v1\na: 1", "{", "a: 1\na: 2"]
)
def test_files_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        mig_config.wanted(text, "it", Hardware(A100, 8, 81920, "p4de"))


def test_engines_of_an_rtx_pro_6000() -> None:
    """One slice with all media engines leaves room for slices without any only (concluded, not measured)."""
    model = CATALOG["rtx-pro-6000"]
    assert not placed(model, {"1g.24gb+me.all": 1, "1g.24gb": 1})
    assert placed(model, {"1g.24gb+me.all": 1, "1g.24gb-me": 3})
