"""Kubeconfigs that can be used, and what is said about those that can't."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.live.cluster.kubeconfig import ClusterAccess, KubeconfigError, load


def written(folder: Path, user: Any, server: str = "http://127.0.0.1:1") -> Path:
    file = folder / "kubeconfig"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(yaml.safe_dump(config))
    return file


def authorization(access: ClusterAccess) -> str:
    headers: dict[str, str] = {}
    access.client.update_params_for_auth(headers, [], ["BearerToken", "BasicAuth"], "/", "GET", None)
    return next((value for name, value in headers.items() if name.lower() == "authorization"), "")


def test_credentials_of_every_usual_kind(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc")
    version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": "plug"}}
    plugin = {
        "apiVersion": version,
        "command": sys.executable,
        "args": ["-c", f"print({json.dumps(json.dumps(answer))})"],
    }
    assert authorization(load(written(tmp_path, {"token": "t"}))) == "Bearer t"
    assert authorization(load(written(tmp_path, {"tokenFile": str(tmp_path / "token")}))) == "Bearer abc"
    assert authorization(load(written(tmp_path, {"username": "a", "password": "b"}))) == "Basic YTpi"
    assert authorization(load(written(tmp_path, {"exec": plugin}))) == "Bearer plug"


def test_a_credential_is_not_shown_by_accident(tmp_path: Path) -> None:
    assert "hush" not in repr(load(written(tmp_path, {"token": "hush"})))


@pytest.mark.parametrize(
    ("context", "server", "expected"),
    [
        ("y", "http://h", 'no context "y"; contexts: x'),
        (None, "ftp://h", "has no server address"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, context: str | None, server: str, expected: str) -> None:
    with pytest.raises(KubeconfigError, match=expected):
        load(written(tmp_path, {}, server), context)


@pytest.mark.parametrize("text", ["", "[]", "a: b: c", "clusters: 3\ncontexts: [1]", "kind: Config"])
def test_what_is_no_kubeconfig_says_so(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    with pytest.raises(KubeconfigError, match=r"kubeconfig.*set KUBECONFIG to"):
        load(file)
    with pytest.raises(KubeconfigError, match="no such file"):
        load(tmp_path / "other")


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    for server, proxied in (("https://127.0.0.1:6443", False), ("https://cluster.example", True)):
        access = load(written(tmp_path, {"token": "t"}, server))
        assert (access.client.configuration.proxy is not None) is proxied
