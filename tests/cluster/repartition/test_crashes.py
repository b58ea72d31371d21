"""Killed after every single write of a repartition, and taken up again: forwards, or back.

One repartition follows the other on the same two nodes, to and fro between two shapes, so that every point of
death is met on a cluster with a history. The shapes differ in everything that a shape can differ in: layout
and plugin settings. What may never happen is checked by the client before and after each write.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from gpupool.live.objects import repartition_mark
from gpupool.live.repartition.result import RepartitionStatus
from gpupool.local.control_plane import ControlPlane
from tests.cluster.repartition.conftest import LARGE, Lab

SHARED: dict[str, Any] = {"mode": "time-slicing", "replicas": 3}
PARTED: dict[str, Any] = {"mode": "mig", "layout": LARGE}
PLAIN_WRITES = 20
"""So many writes a repartition of two nodes has at least; fewer would mean that points are not met."""


def offers(lab: Lab) -> dict[str, dict[str, int]]:
    """Node -> slices, once it is seen that nothing is cordoned, marked or held back."""
    shapes = lab.shapes()
    assert all(shape[0] == "parted" and shape[3:] == (False, None) for shape in shapes.values()), shapes
    return {name: shape[2] for name, shape in shapes.items()}


def test_every_write_may_be_the_last(lab: Lab) -> None:
    lab.spec["pools"][0]["nodes"]["names"].remove("node-2")
    lab.kube.api.delete("v1", "Node", "node-2")
    lab.job("neighbour", "other", "nvidia.com/gpu")
    other = lab.shapes("desk")
    now, asked = PARTED, SHARED
    met = list[str]()
    while True:
        point = len(met) + 1
        before = offers(lab)
        lab.share(0, **asked)
        api = lab.mortal(dies_after=point)
        whole = not lab.dies(api)
        begun = repartition_mark.find(lab.kube.api) is not None
        again = lab.mortal()
        result = lab.repartition(again, rollback=begun and point % 2 == 1)
        assert max(api.most_down, again.most_down) <= 1, met
        assert lab.clean()
        after = offers(lab)
        if result.status is RepartitionStatus.rolled_back:
            assert after == before, api.writes
        else:
            # Killed before it had begun, or after it had ended, there is nothing to take back.
            assert result.status is (
                RepartitionStatus.done if begun or point == 1 else RepartitionStatus.nothing
            ), api.writes
            wanted = lab.plan.pool("parted").slices_per_node
            assert all(have == {k: v for k, v in wanted.items() if v} for have in after.values()), after
            now, asked = asked, now
        if whole:
            break
        met.append(api.writes[-1])
    assert len(met) > PLAIN_WRITES, met
    assert lab.shapes("desk") == other
    assert lab.running() == ["neighbour"], "jobs of other pools never notice"


def test_a_process_that_is_killed_is_followed_by_another(
    lab: Lab, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real command, killed while a node waits for its job; the lock of the dead is not in the way."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    for node in ("node-0", "node-1", "node-2"):
        lab.job(f"on-{node}", node, "nvidia.com/mig-3g.40gb")
    lab.share(0, **SHARED)
    command = [
        sys.executable,
        "-m",
        "gpupool.cli.main",
        "repartition",
        str(lab.file),
        "parted",
        "--format",
        "json",
    ]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        lab.kube.wait("a node is begun", lambda: any(shape[4] for shape in lab.shapes().values()))
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    assert [shape[3] for shape in lab.shapes().values()].count(True) == 1
    assert len(lab.running()) == 3
    again = subprocess.run([*command, "--evict"], capture_output=True, text=True, timeout=300, check=False)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["status"] == "done"
    assert set(map(str, offers(lab).values())) == {"{'nvidia.com/gpu': 3}"}
    assert lab.clean()
