"""What the drawings look like, character by character. `make golden` writes them again; look at them then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.drawings import characters, characters_before_and_after, svg
from gpupool.environment.sharing import Exclusive, MigSharing, Mps, Sharing, TimeSlicing

FOLDER = Path(__file__).parent / "drawings"
WRITING = bool(os.environ.get("GPUPOOL_WRITE_GOLDEN"))

DRAWN: dict[str, tuple[str, Sharing]] = {
    "mig-full": ("h100-80gb", MigSharing({"3g.40gb": 1, "2g.20gb": 2})),
    "mig-narrow": ("h100-80gb", MigSharing({"1g.10gb": 5, "1g.10gb+me": 1})),
    "mig-mostly-unused": ("a100-80gb", MigSharing({"3g.40gb": 1})),
    "mig-compute-unused": ("h100-80gb", MigSharing({"1g.20gb": 4})),
    "mig-four-slices": ("a30", MigSharing({"1g.6gb+me": 1, "2g.12gb": 1})),
    "mig-twelve-slices": ("rtx-pro-6000", MigSharing({"1g.24gb+me.all": 1, "2g.48gb-me": 1})),
    "exclusive": ("l4", Exclusive()),
    "time-slicing": ("t4", TimeSlicing(3)),
    "time-slicing-two-rows": ("a10g", TimeSlicing(12)),
    "time-slicing-too-many": ("a10g", TimeSlicing(1000)),
    "mps": ("a10g", Mps(4)),
    "mps-all-clients": ("h100-80gb", Mps(48)),
}


def compare(name: str, drawn: str) -> None:
    path = FOLDER / name
    if WRITING:
        path.write_text(drawn, encoding="utf-8")
    assert drawn == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DRAWN)
def test_characters(name: str) -> None:
    key, sharing = DRAWN[name]
    compare(f"{name}.txt", "\n".join(characters(load_catalog()[key], sharing)) + "\n")


@pytest.mark.parametrize("name", DRAWN)
def test_svg(name: str) -> None:
    key, sharing = DRAWN[name]
    compare(f"{name}.svg", svg(load_catalog()[key], sharing, "gpu") + "\n")


def test_the_picture_of_the_readme() -> None:
    drawn = svg(load_catalog()["a100-80gb"], MigSharing({"3g.40gb": 1, "2g.20gb": 2}), "gpu")
    readable = drawn.replace("<svg ", '<svg style="background: #fff; color: #000" ', 1)
    compare("../../../docs/inference-mig.svg", readable + "\n")


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("beside-each-other", "mig-full", "mig-narrow"),
        ("another-mode", "mig-twelve-slices", "time-slicing"),
        ("added", None, "mig-full"),
        ("removed", "mps", None),
    ],
)
def test_before_and_after(name: str, before: str | None, after: str | None) -> None:
    sides = [
        None if side is None else (load_catalog()[DRAWN[side][0]], DRAWN[side][1]) for side in (before, after)
    ]
    compare(f"{name}.txt", "\n".join(characters_before_and_after(*sides)) + "\n")


def test_no_expected_drawing_is_left_over() -> None:
    known = {f"{name}.{end}" for name in DRAWN for end in ("txt", "svg")}
    pairs = {"beside-each-other.txt", "another-mode.txt", "added.txt", "removed.txt"}
    assert {path.name for path in FOLDER.iterdir()} == known | pairs
