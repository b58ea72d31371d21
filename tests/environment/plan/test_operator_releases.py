"""What operator releases bring, and what pools would miss with them."""

from __future__ import annotations

import pytest

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.plan.operator_releases import (
    driver_problems,
    load_operator_releases,
    release_problems,
    version_key,
)
from gpupool.environment.sharing import Exclusive, MigSharing


def test_the_tested_release_is_known_and_complete() -> None:
    releases = load_operator_releases()
    tested = releases.releases[releases.tested]
    assert tested.version == "v26.7.0"
    assert tested.driver == "595.91.07"
    assert "mig-variants-apart" in tested.features


def test_releases_are_newest_first() -> None:
    versions = list(load_operator_releases().releases)
    assert versions == sorted(versions, key=version_key, reverse=True)


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("26.7.0", "v26.7.0"),
        ("v26.7", "v26.7.0"),
        ("v26.7.00", "v26.7.0"),
        ("26.3.3", "v26.3.3"),
        ("v26.7.0", None),
        ("v26.7.0-rc.1", None),
        ("v26.7.0-site", None),
        ("v26.7.9", None),
    ],
)
def test_a_release_that_is_spelled_otherwise(version: str, known: str | None) -> None:
    release = load_operator_releases().spelled_otherwise(version)
    assert (release.version if release else None) == known


@pytest.mark.parametrize(
    ("older", "newer"),
    [("v26.3.3", "v26.7.0"), ("580", "580.65.06"), ("v0.9.0", "v0.20.0"), ("570.133.20", "570.172.08")],
)
def test_versions_compare_by_number(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)


def test_a_gpu_that_drivers_gave_up() -> None:
    (problem,) = driver_problems("595.91.07", load_catalog()["v100"], Exclusive())
    assert "no longer supports" in problem.message
    assert "580" in problem.remediation
    assert driver_problems("580.105.08", load_catalog()["v100"], Exclusive()) == []


def test_drivers_that_are_too_old() -> None:
    a100, b200 = load_catalog()["a100-80gb"], load_catalog()["b200"]
    assert driver_problems("470.82.01", a100, MigSharing({"3g.40gb": 2})) == []
    (problem,) = driver_problems("470.82.01", a100, MigSharing({"1g.20gb": 4}))
    assert "1g.20gb" in problem.message
    assert "525" in problem.remediation
    assert driver_problems("570.86.15", b200, Exclusive()) == []
    (problem,) = driver_problems("570.86.15", b200, MigSharing({"1g.23gb": 7}))
    assert "570.133.20" in problem.remediation


def test_variants_need_a_device_plugin_that_distinguishes_them() -> None:
    releases, gpu = load_operator_releases().releases, load_catalog()["rtx-pro-6000"]
    wanted = MigSharing({"1g.24gb-me": 3, "1g.24gb": 1})
    (problem,) = release_problems(releases["v26.3.3"], gpu, wanted)
    assert "1g.24gb-me" in problem.message
    assert release_problems(releases["v26.7.0"], gpu, wanted) == []
    assert release_problems(releases["v26.3.3"], gpu, MigSharing({"1g.24gb": 4})) == []
    a100 = load_catalog()["a100-80gb"]
    (problem,) = release_problems(releases["v26.3.0"], a100, MigSharing({"1g.10gb": 5, "1g.10gb+me": 1}))
    assert "1g.10gb+me" in problem.message
