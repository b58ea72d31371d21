"""Tokens stay with their instance, keys parse, files are private."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from gpupool.live.cluster.local_layout import CONTEXT, Layout
from gpupool.local import credentials, keys


def test_tokens_are_made_once_and_kept(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    first = credentials.ensure(layout, ["admin", "kwok"])
    key = layout.service_account_key.read_text()
    assert len(set(first.values())) == 2
    assert all(len(token) >= 40 for token in first.values())
    assert credentials.ensure(layout, ["admin", "kwok"]) == first
    assert credentials.ensure(layout, ["admin", "kwok", "more"]).items() >= first.items()
    assert layout.service_account_key.read_text() == key
    assert stat.S_IMODE(layout.tokens.stat().st_mode) == 0o600
    assert stat.S_IMODE(layout.pki.stat().st_mode) == 0o700


def test_kubeconfigs_are_private_and_name_the_context(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    tokens = credentials.ensure(layout, ["admin", "kwok"])
    layout.certificate.write_text("-----BEGIN CERTIFICATE-----\n")
    credentials.write_kubeconfigs(layout, "https://127.0.0.1:1", tokens)
    for path, user in ((layout.kubeconfig, "admin"), (layout.kubeconfig_of("kwok"), "kwok")):
        config = json.loads(path.read_text())
        assert config["current-context"] == CONTEXT == "gpupool-local"
        assert config["users"][0]["user"]["token"] == tokens[user]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_certificate_counts_when_it_is_whole(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    credentials.ensure(layout, ["admin"])
    found = [credentials.certificate_written(layout)]
    whole = keys.kubelet_pair()[0]
    for text in ("", whole[:100], whole):
        layout.certificate.write_text(text)
        found.append(credentials.certificate_written(layout))
    assert found == [False, False, False, True]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to check the key with")
def test_the_service_account_key_is_a_valid_p256_key(tmp_path: Path) -> None:
    seen = set()
    for number in range(20):
        path = tmp_path / f"{number}.key"
        path.write_text(keys.service_account_key())
        command = ["openssl", "ec", "-in", str(path), "-noout", "-text"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "prime256v1" in shown or "P-256" in shown
        seen.add(path.read_text())
    assert len(seen) == 20
