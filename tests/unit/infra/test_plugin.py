"""Pulumi's Kubernetes plugin: had by the engine, unless a stand-in may serve."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from gpupool.infra.engine import EngineError, with_plugin
from gpupool.pulumi_plugins.env import KUBERNETES_PLUGIN, STAND_IN, kubernetes_plugin

PINNED = version("pulumi-kubernetes")


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(STAND_IN)
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
    with_plugin(engine(tmp_path, place), "eks", said.append)
    assert said == [f"installing Pulumi's Kubernetes plugin {PINNED}"]
    arguments = (tmp_path / "arguments").read_text()
    assert arguments == f"--non-interactive plugin install resource kubernetes {PINNED}\n"


def test_where_it_cant_the_message_says_what_to_do(tmp_path: Path) -> None:
    failing = engine(tmp_path, "echo 'error: no such host' >&2; exit 1")
    with pytest.raises(EngineError) as raised:
        with_plugin(failing, "static", lambda _: None)
    message = str(raised.value)
    assert "could not install it: no such host." in message
    assert f"pulumi plugin install resource kubernetes {PINNED}" in message
    assert "--stand-in" in message


def test_one_that_never_ends_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpupool.infra.engine._INSTALL_SECONDS", 0.2)
    with pytest.raises(EngineError, match="it was not there after 0 s"):
        with_plugin(engine(tmp_path, "exec sleep 60"), "eks", lambda _: None)


def test_a_stand_in_serves_where_it_is_asked_for_and_locally(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = engine(tmp_path, "exit 1")
    with_plugin(never, "local", lambda _: None)
    monkeypatch.setenv(STAND_IN, "1")
    with_plugin(never, "eks", lambda _: None)
    assert not (tmp_path / "arguments").exists()
