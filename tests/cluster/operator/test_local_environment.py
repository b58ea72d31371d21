"""The shipped local environment with NVIDIA's controller, as `make up OPERATOR=real` has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpupool.environment.spec.environment import OPERATOR_NAMESPACE
from gpupool.local.components import OPERATOR_VARIABLE
from gpupool.local.control_plane import ControlPlane
from tests.cluster.kube import Kube
from tests.cluster.operator.pool_nodes import POOL
from tests.cluster.pools.command_line import SHIPPED, CommandLine

CONTROLLER, SIMULATED = "nvidia-operator", "gpu-operator"
NEVER_TAINTED = {"nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-operator-validator"}
QUIET_SECONDS = 8.0


def running(plane: ControlPlane) -> dict[str, int]:
    return {part.name: part.pid for part in plane.status().components if part.pid}


def policy_status(kube: Kube) -> Any:
    found = kube.get("nvidia.com/v1", "ClusterPolicy", "cluster-policy")
    return found.get("status", {})


def becomes_ready(kube: Kube) -> None:
    def check() -> bool:
        status = policy_status(kube)
        conditions = {row["type"]: row for row in status.get("conditions", ())}
        assert status.get("state") == "ready", status
        assert conditions.get("Ready", {}).get("reason") == "Reconciled", conditions
        return True

    kube.wait("the ClusterPolicy is ready", check)


def test_the_local_environment_runs_jobs_under_the_real_controller(
    operated_plane: ControlPlane, tmp_path: Path
) -> None:
    kube = Kube(operated_plane)
    assert {CONTROLLER, SIMULATED} <= running(operated_plane).keys()
    file = tmp_path / "local.yaml"
    file.write_text(SHIPPED.read_text(encoding="utf-8"), encoding="utf-8")
    commands = CommandLine(file, operated_plane)
    commands.up()
    tried = subprocess.run(
        [sys.executable, "-m", "gpupool.cli.main", "local", "try", str(file), "--format", "json"],
        env={**os.environ, "GPUPOOL_LOCAL_DIR": str(operated_plane.layout.data)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert tried.returncode == 0, tried.stdout + tried.stderr
    becomes_ready(kube)
    nodes = {node["metadata"]["name"] for node in kube.nodes() if POOL in node["metadata"]["labels"]}
    assert nodes

    def operands() -> bool:
        for name in NEVER_TAINTED:
            pods = kube.running(OPERATOR_NAMESPACE, f"app={name}")
            assert {pod["spec"]["nodeName"] for pod in pods} == {
                node["metadata"]["name"] for node in kube.nodes() if POOL in node["metadata"]["labels"]
            }, name
        return True

    kube.wait("every pool's nodes have the operands", operands)
    kube.stays("ready", lambda: policy_status(kube)["state"] == "ready", QUIET_SECONDS)

    def asserted() -> bool:
        drifts = commands.json("assert")["findings"]
        assert not drifts, drifts
        return True

    kube.wait("the cluster matches the file", asserted)
    listening(operated_plane)
    commands.run("destroy", "--yes")
    kube.wait("the operands are gone", lambda: not kube.api.list("apps/v1", "DaemonSet", OPERATOR_NAMESPACE))
    kube.wipe()
    kube.api.close()


def listening(plane: ControlPlane) -> None:
    """The controller listens nowhere."""
    launcher = psutil.Process(running(plane)[CONTROLLER])
    pids = [launcher.pid, *(child.pid for child in launcher.children(recursive=True))]
    assert len(pids) == 2
    for pid in pids:
        ports = [row.laddr for row in psutil.Process(pid).net_connections("inet") if row.status == "LISTEN"]
        assert ports == []


def test_a_dead_controller_is_named_and_comes_back(operated_plane: ControlPlane) -> None:
    (controller,) = psutil.Process(running(operated_plane)[CONTROLLER]).children()
    controller.kill()
    kube = Kube(operated_plane)
    kube.wait("its launcher ends with it", lambda: CONTROLLER not in running(operated_plane))
    kube.api.close()
    assert any(CONTROLLER in problem for problem in operated_plane.status().problems)
    assert operated_plane.up().healthy
    assert CONTROLLER in running(operated_plane)


def test_an_up_without_it_returns_to_the_simulated_operator(
    operated_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test of this file: what was asked for is started again by the next `up`."""
    before = psutil.Process(running(operated_plane)[CONTROLLER])
    below = before.children(recursive=True)
    monkeypatch.delenv(OPERATOR_VARIABLE)
    assert operated_plane.up().healthy
    assert CONTROLLER not in running(operated_plane)
    assert not [process for process in (before, *below) if process.is_running()]
    assert operated_plane.status().healthy
