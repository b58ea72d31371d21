"""Where programs come from, in which order, and which versions of others' fit."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.programs import binaries, gobuild, releases
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
    """Empty cache, empty PATH folder, empty given folder, and no downloads."""
    monkeypatch.setenv("GPUPOOL_RELEASES", "off")
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
    with pytest.raises(LocalError, match=r"reinstall gpupool"):
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


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[gobuild.Build]:
    """What was built, by a compiler that takes no time."""
    done: list[gobuild.Build] = []

    def build(job: gobuild.Build, report: binaries.Report) -> None:
        done.append(job)
        for target in job.targets.values():
            target.parent.mkdir(parents=True)
            program(target.parent, target.name, "built")

    monkeypatch.setattr(gobuild, "build", build)
    return done


@pytest.fixture
def mirror(places: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was downloaded, from a mirror that has everything."""
    asked: list[str] = []

    def fetch(release: releases.PublishedFile, target: Path, seconds: float, report: binaries.Report) -> None:
        asked.append(release.title)
        target.parent.mkdir(parents=True)
        program(target.parent, target.name, "downloaded")

    monkeypatch.setenv("GPUPOOL_RELEASES", "https://mirror.example.org")
    monkeypatch.setattr(releases, "fetch", fetch)
    monkeypatch.setattr(releases, "this_machine", lambda: "linux-amd64")
    return asked


def test_a_release_is_taken_before_anything_is_built(mirror: list[str], builds: list[gobuild.Build]) -> None:
    path = binaries.locate("etcd")
    known = binaries.programs()["etcd"]
    assert mirror == [f"etcd {known.version}"]
    assert builds == []
    assert binaries.find("etcd") == path
    assert path != known.cached, "a download is never taken for a build"
    binaries.locate("etcd")
    assert len(mirror) == 1


def test_what_one_place_gave_is_not_taken_for_another_ones(
    mirror: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = binaries.locate("etcd")
    monkeypatch.setenv("GPUPOOL_RELEASES", "https://other.example.org")
    assert binaries.find("etcd") is None
    assert binaries.locate("etcd") != first
    monkeypatch.setenv("GPUPOOL_RELEASES", "off")
    assert binaries.find("etcd") is None


def test_what_was_built_comes_before_what_was_downloaded(
    mirror: list[str], builds: list[gobuild.Build]
) -> None:
    binaries.locate("etcd")
    binaries.locate_all(["etcd"], build=True)
    assert binaries.find("etcd") == binaries.programs()["etcd"].cached


def test_build_asks_no_host_and_takes_nobody_elses_program(
    places: Path, mirror: list[str], builds: list[gobuild.Build]
) -> None:
    known = binaries.programs()["etcd"]
    program(places / "path", "etcd", f"etcd Version: {known.version}")
    program(places / "given", "etcd", f"etcd Version: {known.version}")
    assert binaries.locate_all(["etcd", "kubectl"], build=True)["etcd"] == known.cached
    assert [job.title.split()[0] for job in builds] == ["etcd", "kubectl"]
    assert mirror == []
    binaries.locate_all(["etcd", "kubectl"], build=True)
    assert len(builds) == 2, "what was built once is not built again"


def test_a_release_that_can_not_be_had_is_built_and_said(
    places: Path,
    builds: list[gobuild.Build],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(releases, "_given_up", {})
    monkeypatch.setattr(releases, "ANSWER_SECONDS", 60.0)
    monkeypatch.setattr(releases, "this_machine", lambda: "linux-amd64")
    said: list[str] = []
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and does not listen: no other process gets the port
        port = deaf.getsockname()[1]
        monkeypatch.setenv("GPUPOOL_RELEASES", f"http://127.0.0.1:{port}")
        found = binaries.locate_all(["kwok", "karpenter"], said.append)
    assert found["kwok"] == binaries.programs()["kwok"].cached
    assert [job.title.split()[0] for job in builds] == ["kwok", "karpenter"]
    assert capsys.readouterr().err == (
        f"kwok {binaries.programs()['kwok'].version} is built instead of downloaded: "
        f"127.0.0.1:{port} can't be reached (Connection refused)\n"
    )
    assert said[0].startswith("downloading kwok ")
    assert said[1].startswith("2 of 2 programs must be built once: kwok, karpenter")


def test_programs_of_one_module_are_one_build(places: Path, builds: list[gobuild.Build]) -> None:
    wanted = ["kube-apiserver", "etcd", "kubectl", "kube-scheduler", "kube-controller-manager"]
    found = binaries.locate_all(wanted)
    assert [len(job.targets) for job in builds] == [4, 1]
    assert builds[0].title.startswith("kube-apiserver, kubectl, kube-scheduler, kube-controller-manager v1.")
    assert {name: found[name].name for name in wanted} == {name: name for name in wanted}
    for one in binaries.programs().values():
        if one.tool == "kubernetes":
            assert one.package.endswith(f"/{one.name}"), "go build names several programs by their packages"
