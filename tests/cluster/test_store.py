"""An etcd that is dead, silent or out of space is found by asking etcd itself, and named in plain words."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan
from gpupool.live.cluster import access
from gpupool.live.cluster.kube_api import ApiError, UnreachableError
from gpupool.local import components
from gpupool.local.control_plane import ControlPlane
from gpupool.programs.failures import LocalError

_QUOTA = 8 * 2**20
"""Bytes: enough for the control plane's own objects, and soon reached."""
_FOUND_SECONDS = 20.0
"""Five and more for a machine that is busy; a request alone would wait for thirty."""


def soon(call: Callable[[Plan], None], plan: Plan) -> None:
    """Raises TimeoutError where `call` has not returned in time."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call, plan).result(timeout=_FOUND_SECONDS)


@pytest.fixture
def plane(data_folder: Path) -> ControlPlane:
    own = ControlPlane(data_folder)
    own.up()
    return own


def pid(plane: ControlPlane, name: str) -> int:
    found = next(part.pid for part in plane.status().components if part.name == name)
    assert found is not None
    return found


def test_a_dead_or_silent_etcd_is_found_before_a_run_begins(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`up` asks the API server, whose own check takes two seconds; requests would wait for thirty."""
    monkeypatch.setenv("GPUPOOL_LOCAL_DIR", str(plane.layout.data))
    plan = read_plan("local")
    access.require_cluster(plan)
    etcd = pid(plane, "etcd")
    os.kill(etcd, signal.SIGSTOP)
    while not all("State:\tT" in path.read_text() for path in Path(f"/proc/{etcd}/task").glob("*/status")):
        time.sleep(0.01)  # until its last thread has stopped, it may answer
    try:
        problems = plane.status().problems
        assert f"etcd does not answer; its log: {plane.layout.log('etcd')}" in problems
        with pytest.raises(UnreachableError, match=r"its etcd does not.*`gpupool local up` repairs it"):
            soon(access.require_cluster, plan)
    finally:
        os.kill(etcd, signal.SIGCONT)
    os.kill(etcd, signal.SIGKILL)
    with pytest.raises(UnreachableError, match="its etcd does not"):
        soon(access.require_cluster, plan)
    assert any("etcd is not running" in problem for problem in plane.status().problems)
    assert plane.up().healthy
    access.require_cluster(plan)


def test_an_etcd_without_space_is_named_and_nothing_is_stopped(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"ETCD_QUOTA_BACKEND_BYTES": str(_QUOTA)}
    monkeypatch.setitem(components._ROWS["etcd"], "settings", settings)
    plane = ControlPlane(data_folder)
    plane.up()
    api = plane.api()
    with pytest.raises(ApiError, match=r"etcd is out of space.*etcdctl alarm disarm") as refused:
        fill(api)
    assert "mvcc" not in str(refused.value)
    problems = plane.status().problems
    assert any(f"etcd is out of space: {data_folder / 'etcd'}" in problem for problem in problems)
    before = {part.name: part.pid for part in plane.status().components}
    with pytest.raises(LocalError, match=r"etcd is out of space.*gpupool local down") as stopped:
        plane.up()
    assert "goroutine" not in str(stopped.value)
    assert {part.name: part.pid for part in plane.status().components} == before
    assert api.get("v1", "ConfigMap", "filler-0", "default") is not None, "reading goes on"
    api.close()

    for victim in before.values():
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
    with pytest.raises(LocalError, match=r"etcd is out of space.*gpupool local down") as stopped:
        plane.up()
    assert "goroutine" not in str(stopped.value)
    plane.down()
    assert plane.up().healthy


def fill(api: Any) -> None:
    for number in range(2 * _QUOTA // 200_000):  # etcd uses free pages again, so that once may be too little
        metadata = {"name": f"filler-{number}", "namespace": "default"}
        data = {"x": "y" * 200_000}
        api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
