"""Kubeconfigs of every usual kind, and what is said about unusable ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.kubeconfig import KubeconfigError, load


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


def test_tokens_files_and_passwords(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    assert load(written(tmp_path, {"token": "t"})).headers == {"Authorization": "Bearer t"}
    assert load(written(tmp_path, {"tokenFile": "token"})).headers == {"Authorization": "Bearer abc"}
    basic = load(written(tmp_path, {"username": "a", "password": "b"}))
    assert basic.headers == {"Authorization": "Basic YTpi"}


def test_a_credential_is_not_shown_by_accident(tmp_path: Path) -> None:
    assert "hush" not in repr(load(written(tmp_path, {"token": "hush"})))


def test_exec_plugins_are_run(tmp_path: Path) -> None:
    answer = json.dumps({"status": {"token": "from-plugin"}})
    plugin = {"command": sys.executable, "args": ["-c", f"print('{answer}')"], "env": None}
    assert load(written(tmp_path, {"exec": plugin})).headers == {"Authorization": "Bearer from-plugin"}
    failing = {"command": sys.executable, "args": ["-c", "import sys; sys.exit('log in first')"]}
    with pytest.raises(KubeconfigError, match="log in first"):
        load(written(tmp_path, {"exec": failing}))


@pytest.mark.parametrize(
    ("context", "server", "expected"),
    [
        ("y", "http://h", 'no context "y"; there are: x'),
        (None, "", "has no server address"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, context: str | None, server: str, expected: str) -> None:
    with pytest.raises(KubeconfigError, match=expected):
        load(written(tmp_path, {}, server), context)


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="set KUBECONFIG or start the local control plane"):
        load(tmp_path / "nothing")
