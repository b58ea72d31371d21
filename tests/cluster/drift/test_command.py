"""`gpupool assert` as a user runs it: exit codes, formats, watching, and the state that it records."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.drift.world import World


@pytest.fixture
def command(world: World) -> list[str]:
    return [sys.executable, "-m", "gpupool.cli.main", "assert", str(world.commands.file)]


def surroundings(world: World) -> dict[str, str]:
    return {**os.environ, "GPUPOOL_LOCAL_DIR": str(world.commands.plane.layout.data)}


def test_the_answer_in_every_form(world: World, tmp_path: Path) -> None:
    assert "drifting: the cluster matches the file" in world.commands.run("assert")
    kept = world.kube.get("v1", "ConfigMap", "gpupool-last-good", "gpupool-system")
    assert kept["data"], "a good state is there for `gpupool rollback`"
    assert world.examine().settled, "what gpupool keeps there itself is nothing extra"

    node = world.node("notebooks")
    world.label(node, "workload-type", None)
    try:
        text = world.commands.run("assert", code=1)
        assert "nodes: nodes of the pools\n  drift     label  Node " in text
        assert f"$ kubectl label node {node} workload-type=notebooks --overwrite\n" in text
        found = json.loads(world.commands.run("assert", "--format", "json", code=1))
        assert (found["environment"], found["clean"]) == ("drifting", False)
        (drift,) = found["findings"]
        assert (drift["layer"], drift["code"], drift["category"]) == ("nodes", "label", "drift")
        file = tmp_path / "gpupool.prom"
        world.commands.run("assert", "--format", "prometheus", "--output", str(file), code=1)
        wanted = 'gpupool_assert_drift{environment="drifting",kind="label",layer="nodes"} 1.0'
        assert wanted in file.read_text().splitlines()
    finally:
        world.label(node, "workload-type", "notebooks")


def test_no_answer_is_a_failure_with_advice(world: World, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpupool.cli.main", "assert", str(world.commands.file)],
        env={**os.environ, "GPUPOOL_LOCAL_DIR": str(tmp_path / "nothing")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "start it with: gpupool local up" in done.stderr
    world.commands.run("assert", "--format", "csv", code=2)


def test_watching_prints_what_changes_until_it_is_stopped(world: World, command: list[str]) -> None:
    lines: list[str] = []
    with subprocess.Popen(
        [*command, "--watch", "--every", "1", "--no-record"],
        env=surroundings(world),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        stream: Any = watching.stdout
        reader = threading.Thread(target=lambda: lines.extend(iter(stream.readline, "")))
        reader.start()
        try:
            world.kube.wait(
                "the first answer", lambda: any("the cluster matches the file" in line for line in lines), 60
            )
            world.label(world.node("notebooks"), "workload-type", None)
            world.kube.wait("the news", lambda: any("it has no label" in line for line in lines), 60)
        finally:
            world.label(world.node("notebooks"), "workload-type", "notebooks")
            watching.send_signal(signal.SIGINT)
            code = watching.wait(timeout=300)
            reader.join()
        assert code == 130
        assert watching.stderr is not None
        assert "Traceback" not in watching.stderr.read()
