"""Pulumi's Kubernetes plugin: installed by the engine, else built."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from gpupool.infra.engine import EngineError
from gpupool.infra.plugin import require_plugin
from gpupool.infra.pulumi_plugins.env import KUBERNETES_PLUGIN, kubernetes_plugin
from gpupool.programs import binaries
from gpupool.programs.failures import LocalError

PINNED = version("pulumi-kubernetes")


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GPUPOOL_RELEASES", raising=False)
    monkeypatch.setattr(binaries, "find", lambda _: None)
    if kubernetes_plugin() is not None:
        pytest.skip("the plugin is on PATH")


def engine(folder: Path, script: str) -> Path:
    """An engine that does this on `plugin install`."""
    file = folder / "pulumi"
    file.write_text(f'#!/bin/sh\necho "$@" > {folder}/arguments\n{script}\n')
    file.chmod(0o700)
    return file


def test_the_engine_installs_the_pinned_one(tmp_path: Path) -> None:
    folder = f"$PULUMI_HOME/plugins/resource-kubernetes-v{PINNED}"
    place = f'mkdir -p "{folder}" && : > "{folder}/{KUBERNETES_PLUGIN}"'
    said: list[str] = []
    require_plugin(engine(tmp_path, place), said.append)
    assert said == [f"installing Pulumi's Kubernetes plugin {PINNED}"]
    arguments = (tmp_path / "arguments").read_text()
    assert arguments == f"--non-interactive plugin install resource kubernetes {PINNED}\n"


def built(monkeypatch: pytest.MonkeyPatch, error: str = "") -> list[str]:
    """Programs that are built from now on; each ends with this error, if any."""
    names: list[str] = []

    def locate(name: str, _: Any) -> None:
        names.append(name)
        if error:
            raise LocalError(error)

    monkeypatch.setattr(binaries, "locate", locate)
    return names


def test_where_it_cant_the_plugin_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = built(monkeypatch)
    require_plugin(engine(tmp_path, "echo 'error: no such host' >&2; exit 1"), lambda _: None)
    assert names == [KUBERNETES_PLUGIN]


def test_where_nothing_is_to_be_downloaded_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = built(monkeypatch)
    monkeypatch.setenv("GPUPOOL_RELEASES", "off")
    require_plugin(engine(tmp_path, "exit 1"), lambda _: None)
    assert names == [KUBERNETES_PLUGIN]
    assert not (tmp_path / "arguments").exists()


def test_where_neither_works_the_message_has_both_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(monkeypatch, "`go` is not on PATH")
    with pytest.raises(EngineError) as raised:
        require_plugin(engine(tmp_path, "echo 'error: no such host' >&2; exit 1"), lambda _: None)
    message = str(raised.value)
    assert "could not install it: no such host." in message
    assert f"pulumi plugin install resource kubernetes {PINNED}" in message
    assert "could not build it either: `go` is not on PATH." in message


def test_one_that_never_ends_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpupool.infra.plugin._INSTALL_SECONDS", 0.2)
    built(monkeypatch, "no Go")
    with pytest.raises(EngineError, match="it was not there after 0 s"):
        require_plugin(engine(tmp_path, "exec sleep 60"), lambda _: None)
