"""Nodes that exist already: a label and a taint removed by hand are reported; refresh and up restore them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.local.control_plane import ControlPlane
from tests.cluster.drift.world import World
from tests.cluster.operator_policy import hand_made_policy
from tests.cluster.pools.command_line import SHIPPED, CommandLine

NODE = "k3s-gpu-0"
TAINT = {"key": "gpu", "value": "true", "effect": "NoSchedule"}


@pytest.fixture
def home(
    cluster: Any, control_plane: ControlPlane, make_node: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> World:
    """The shipped home lab, on a cluster where somebody has installed the operator by hand."""
    data = yaml.safe_load((SHIPPED.parent / "homelab.yaml").read_text(encoding="utf-8"))
    data["gpuOperator"]["install"] = False
    data["pools"][0]["taints"] = [TAINT]
    gpu = {"simulated.gpupool.dev/gpu": "rtx-4070-ti-super", "simulated.gpupool.dev/gpus": "1"}
    make_node(NODE, annotations=gpu)
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
    cluster.apply(hand_made_policy())
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    monkeypatch.setenv("PULUMI_BACKEND_URL", tmp_path.as_uri())
    commands = CommandLine(tmp_path / "homelab.yaml", control_plane)
    commands.write(data)
    commands.up()
    return World(commands, cluster)


def test_an_existing_node_gets_its_label_and_taint_back(home: World) -> None:
    home.clean()
    home.label(NODE, "gpupool.dev/pool", None)
    label = home.found("the label", lambda drift: drift.code == "label")
    assert "it has no label gpupool.dev/pool" in label.what
    kept = [taint for taint in home.kube.node(NODE)["spec"]["taints"] if taint["key"] != TAINT["key"]]
    home.edit("v1", "Node", NODE, {"spec": {"taints": kept}})
    taint = home.found("the taint", lambda drift: drift.code == "taint")
    assert "it has no taint gpu=true:NoSchedule" in taint.what
    assert (
        label.remediation
        == taint.remediation
        == f"gpupool refresh {home.commands.file} && gpupool up {home.commands.file}"
    )
    home.run(taint.remediation)
    home.clean()
    home.commands.change(lambda data: data["pools"][0]["nodes"].update(names=[NODE, "k3s-gpu-1"]))
    missing = home.found("the node that is not there", lambda drift: drift.code == "node-missing")
    assert missing.object == "Node k3s-gpu-1"
    home.wipe()
