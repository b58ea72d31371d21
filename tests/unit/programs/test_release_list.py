"""Which releases there are: the shipped list, mirrors, and the forms in which checksums are published."""

from __future__ import annotations

import hashlib

import pytest

from gpupool.programs import binaries, releases
from gpupool.programs.failures import LocalError

MACHINE = "linux-amd64"


@pytest.mark.parametrize(
    "text",
    [
        "{digest}\n",
        "{other}  tiny-v2\n{digest}  tiny\n",
        "{other} *tiny-v2\n{digest} *./tiny\n",
        '{{"assets": [{{"name": "tiny-v2", "digest": "sha256:{other}"}},'
        ' {{"name": "tiny", "digest": "sha256:{digest}"}}]}}',
    ],
)
def test_checksums_are_read_in_every_published_form(text: str) -> None:
    digest, other = hashlib.sha256(b"tiny").hexdigest(), hashlib.sha256(b"other").hexdigest()
    assert releases.sha256_in(text.format(digest=digest, other=other), "tiny") == digest


@pytest.mark.parametrize(
    "text", ["", "<html>", "{}", '{"assets": [{"name": "tiny", "digest": null}]}', "0123  tiny"]
)
def test_what_is_no_checksum_is_none(text: str) -> None:
    assert releases.sha256_in(text, "tiny") is None


def test_releases_are_of_the_pinned_versions_and_have_a_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUPOOL_RELEASES", raising=False)
    programs = binaries.programs()
    assert set(releases._entries()) == set(programs) - {"karpenter"}
    for name, entry in releases._entries().items():
        stale = set(entry.get("sha256", {})) - {programs[name].version}
        assert not stale, (
            f"releases.yaml: {name} has sums of {stale}; write down those of {programs[name].version}"
        )
        for machine in entry["platforms"]:
            one = releases.published(name, programs[name].version, machine)
            assert one is not None
            assert one.url.startswith("https://")
            assert one.checksums.startswith("https://")
            assert "{" not in one.url + one.checksums + one.member
            assert bool(one.member) == one.url.endswith(".tar.gz")
    assert releases.published("etcd", "v1.2.3", "plan9-mips") is None
    assert releases.published("karpenter", "v1.2.3", MACHINE) is None


def test_the_addresses_are_the_documented_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUPOOL_RELEASES", raising=False)
    pulumi = releases.published("pulumi", "v3.259.0", MACHINE)
    assert pulumi is not None
    at = "https://github.com/pulumi/pulumi/releases/download/v3.259.0"
    assert pulumi.url == f"{at}/pulumi-v3.259.0-linux-x64.tar.gz"
    assert pulumi.checksums == f"{at}/pulumi-3.259.0-checksums.txt"
    server = releases.published("kube-apiserver", "v1.36.3", "linux-arm64")
    assert server is not None
    assert server.checksums == "https://dl.k8s.io/release/v1.36.3/bin/linux/arm64/kube-apiserver.sha256"


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
