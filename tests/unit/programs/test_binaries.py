"""Where programs come from, and which versions of others' fit."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.programs import binaries
from gpupool.programs.failures import LocalError

versions = st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 20))


def program(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty cache, empty PATH folder, empty given folder."""
    monkeypatch.setenv("GPUPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GPUPOOL_BIN_DIR", str(tmp_path / "given"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    return tmp_path


def test_every_program_has_a_pinned_version_and_its_ldflags_are_filled_in() -> None:
    known = binaries.programs()
    assert known["kube-apiserver"].version.startswith("v1.")
    assert f"gitVersion={known['kubectl'].version}" in known["kubectl"].ldflags
    assert not any("{" in one.ldflags for one in known.values())
    assert all(
        one.version.startswith("v") and one.seconds > 0 and one.megabytes > 0 for one in known.values()
    )


def test_a_module_that_is_not_required_is_an_error() -> None:
    with pytest.raises(LocalError, match=r"does not require example\.com/nothing"):
        binaries.pinned_version("etcd", "example.com/nothing")
    with pytest.raises(LocalError, match=r"from a checkout"):
        binaries.pinned_version("nothing", "example.com/nothing")


@given(versions, versions)
def test_no_rule_accepts_another_major_version(
    have: tuple[int, int, int], want: tuple[int, int, int]
) -> None:
    for rule in ("same-minor", "skew-1", "at-least"):
        if binaries.accepts(rule, have, want):
            assert have[0] == want[0]
        assert binaries.accepts(rule, want, want)
    assert not binaries.accepts("anything else", want, want)


@pytest.mark.parametrize(
    ("rule", "have", "fits"),
    [
        ("same-minor", (1, 36, 0), True),
        ("same-minor", (1, 35, 9), False),
        ("skew-1", (1, 35, 0), True),
        ("skew-1", (1, 37, 0), True),
        ("skew-1", (1, 32, 4), False),
        ("at-least", (1, 36, 2), False),
        ("at-least", (1, 40, 0), True),
    ],
)
def test_rules(rule: str, have: tuple[int, int, int], fits: bool) -> None:
    assert binaries.accepts(rule, have, (1, 36, 3)) is fits


def test_the_given_folder_comes_before_path(places: Path) -> None:
    version = binaries.programs()["etcd"].version.removeprefix("v")
    on_path = program(places / "path", "etcd", f"etcd Version: {version}")
    assert binaries.find("etcd") == on_path
    given_one = program(places / "given", "etcd", f"etcd Version: {version}")
    assert binaries.find("etcd") == given_one


def test_what_does_not_fit_is_passed_over(places: Path) -> None:
    program(places / "given", "kube-apiserver", "Kubernetes v1.20.0")
    program(places / "path", "kube-apiserver", "no idea")
    assert binaries.find("kube-apiserver") is None


def test_a_program_without_a_version_is_trusted_in_the_given_folder_only(places: Path) -> None:
    program(places / "path", "karpenter", "")
    assert binaries.find("karpenter") is None
    given_one = program(places / "given", "karpenter", "")
    assert binaries.find("karpenter") == given_one


def test_a_built_program_is_found_in_the_cache(places: Path) -> None:
    cached = binaries.programs()["kwok"].cached
    assert cached.is_relative_to(places / "cache")
    cached.parent.mkdir(parents=True)
    program(cached.parent, "kwok", "")
    assert binaries.find("kwok") == cached


def test_missing_programs_are_announced_before_the_first_build(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    said: list[str] = []
    with pytest.raises(LocalError, match=r"`go` is not on PATH.*Go 1\..*https://go\.dev/dl/"):
        binaries.locate_all(["etcd", "kwok"], said.append)
    assert "2 of 2 programs must be built once: etcd, kwok" in said[0]
