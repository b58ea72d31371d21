"""The command `pulumi` of `gpupool local env`: a language host listens while the engine runs, not longer."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpupool.infra.pulumi_plugins import env as pulumi_env
from gpupool.live.cluster.local_layout import Layout

Engine = Callable[[str], dict[str, str]]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Writes an engine, a shell script; the variables of a shell after `gpupool local env`."""
    layout = Layout(tmp_path / "it's here")
    layout.pulumi.mkdir(parents=True)
    monkeypatch.setenv("GPUPOOL_LOCAL_DIR", str(layout.data))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    program = tmp_path / "engine" / "pulumi"
    program.parent.mkdir()

    def write(script: str) -> dict[str, str]:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return {**os.environ, **pulumi_env.environment(pulumi=program)}

    return write


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_it_listens_while_the_engine_runs(engine: Engine) -> None:
    variables = engine('echo "$PULUMI_DEBUG_LANGUAGES $# $2 ${PYTHONPATH-none}"; read x; exit 7')
    assert "PULUMI_DEBUG_LANGUAGES" not in variables
    command = ["pulumi", "up", "a b"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=variables, stdin=pipe, stdout=pipe, text=True) as running:
        assert running.stdout is not None
        language, *rest = running.stdout.readline().split()
        port = int(language.partition(":")[2])
        assert rest == ["2", "a", "b", "none"]
        assert listens(port)
        running.communicate("x\n")
    assert running.returncode == 7
    assert not listens(port)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_engine_once(engine: Engine, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    wait = "n=0; while [ $n -lt 20 ]; do sleep 0.1; n=$((n+1)); done"
    variables = engine(f"trap 'echo stopped' {name}; echo ready; {wait}; exit 3")
    with subprocess.Popen(
        ["pulumi"], env=variables, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(number)
        assert running.stdout.read() == "stopped\n"
    assert running.returncode == 3


def test_a_shell_that_has_the_command_gets_no_second_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the engine that is found on PATH is that command: it must not come to call itself."""
    variables = engine("echo once")
    file = Path(variables["PATH"].partition(os.pathsep)[0], "pulumi")
    text = file.read_text()
    monkeypatch.setenv("PATH", variables["PATH"])
    pulumi_env.environment(pulumi=file.resolve())
    assert file.read_text() == text
    assert file.stat().st_mode & 0o077 == 0
