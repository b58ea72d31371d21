"""Which releases there are: the shipped list, with a checksum of each, and mirrors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpupool.local.bare_server import program_of
from gpupool.programs import binaries, releases
from gpupool.programs.failures import LocalError
from vapcheck.server.minors import MINORS, NEWEST

ROOT = Path(__file__).parents[2]
MACHINE = "linux-amd64"
SELDOM = {name for name, program in binaries.programs().items() if program.seldom}
OLDER = {name for name in SELDOM if name.startswith("kube-apiserver-")}
"""API servers of older minors."""
NVIDIA = {"nvidia-device-plugin", "gpu-feature-discovery", "mps-control-daemon", "nvidia-mig-parted"}
BUILT = {"karpenter", "nats-server", "pulumi", "pulumi-resource-kubernetes"} | SELDOM
"""Programs with no release whose checksum is known."""


def test_releases_are_of_the_pinned_versions_and_their_checksums_are_written_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GPUPOOL_RELEASES", raising=False)
    programs = binaries.programs()
    assert set(releases._entries()) == set(programs) - BUILT
    for name, entry in releases._entries().items():
        assert set(entry) <= {"url", "member", "sha256"}, "nothing else decides what is downloaded"
        version = programs[name].version
        assert set(entry["sha256"]) == {version}, f"releases.yaml: write down the sums of {name} {version}"
        for machine, digest in entry["sha256"][version].items():
            one = releases.published(name, version, machine)
            assert one is not None
            assert one.url.startswith("https://")
            assert re.fullmatch(r"[0-9a-f]{64}", digest)
            assert one.sha256 == digest
            assert "{" not in one.url + one.member
            assert bool(one.member) == one.url.endswith(".tar.gz")


def test_no_two_files_have_one_checksum() -> None:
    digests = [
        digest
        for entry in releases._entries().values()
        for sums in entry["sha256"].values()
        for digest in sums.values()
    ]
    assert len(set(digests)) == len(digests), "one of them was copied to the wrong line"


@pytest.mark.parametrize(
    ("name", "version", "machine"),
    [
        ("etcd", "v1.2.3", MACHINE),
        ("etcd", "v3.6.5", "plan9-mips"),
        *((name, binaries.programs()[name].version, MACHINE) for name in sorted(BUILT)),
    ],
)
def test_what_has_no_checksum_here_is_not_downloaded(
    monkeypatch: pytest.MonkeyPatch, name: str, version: str, machine: str
) -> None:
    for place in ("https://mirror.example.org", None):
        if place is None:
            monkeypatch.delenv("GPUPOOL_RELEASES", raising=False)
        else:
            monkeypatch.setenv("GPUPOOL_RELEASES", place)
        assert releases.published(name, version, machine) is None


def test_the_page_names_what_is_downloaded_and_what_is_built() -> None:
    page = (ROOT / "docs" / "programs.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ") and line.count("|") == 4]
    for name in binaries.programs():
        [row] = [row for row in rows if re.search(rf"(?<![\w-]){name}(?![\w-])", row[1])]
        assert ("always built" in row[2]) == (name in BUILT), name


def test_what_few_tests_run_is_not_got_beforehand() -> None:
    known = {"argocd", "gpu-operator", "helm4", "kustomize-controller"}
    assert known | NVIDIA == SELDOM - OLDER
    assert {name for name, program in binaries.programs().items() if program.cgo} == NVIDIA
    assert {program_of(minor) for minor in MINORS if minor != NEWEST} == OLDER
    for name in OLDER:
        assert f"kube-apiserver-{binaries.programs()[name].version.removeprefix('v')}".startswith(name)


def test_the_addresses_are_the_documented_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUPOOL_RELEASES", raising=False)
    server = releases.published("kube-apiserver", "v1.36.3", "linux-arm64")
    assert server is not None
    assert server.url == "https://dl.k8s.io/release/v1.36.3/bin/linux/arm64/kube-apiserver"
    helm = releases.published("helm", "v3.22.0", "darwin-arm64")
    assert helm is not None
    assert helm.url == "https://get.helm.sh/helm-v3.22.0-darwin-arm64.tar.gz"
    assert helm.member == "darwin-arm64/helm"


def test_a_mirror_has_a_folder_per_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPOOL_RELEASES", "https://mirror.example.org/all/")
    kwok = releases.published("kwok", "v0.8.0", MACHINE)
    assert kwok is not None
    assert kwok.url == (
        "https://mirror.example.org/all/github.com/kubernetes-sigs/kwok/releases/download/v0.8.0/kwok-linux-amd64"
    )
    for off in ("", "off", " off "):
        monkeypatch.setenv("GPUPOOL_RELEASES", off)
        assert releases.published("kwok", "v0.8.0", MACHINE) is None
    monkeypatch.setenv("GPUPOOL_RELEASES", "mirror.example.org")
    with pytest.raises(
        LocalError, match=r"GPUPOOL_RELEASES=mirror\.example\.org: not the address.*https://.*`off`"
    ):
        releases.published("kwok", "v0.8.0", MACHINE)
