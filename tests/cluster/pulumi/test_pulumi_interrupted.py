"""Failure on the way: the API server stops answering, processes are killed, locks are left behind."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from typing import Any

import psutil
import pulumi
import pytest

from gpupool.infra import stack
from gpupool.infra.locks import LockedError
from gpupool.infra.stack import StackError
from gpupool.live.cluster import kube_api
from tests.cluster.pulumi.conftest import begun

PATIENCE = 300
"""Seconds after which something hangs."""
SILENCE = 10.0
"""After so many seconds a silent API server counts as gone in these tests; no answer takes as long."""


def many_tenants(world: Any, count: int = 15) -> None:
    """Enough objects (some 150) that a run can be hit in its middle."""
    world.spec["tenants"] = [
        {"name": f"team-{n}", "namespace": f"trial-{n}", "pools": {"notebooks": {"gpus": 1}}}
        for n in range(count)
    ]


def assert_whole(world: Any) -> None:
    """The next `up` completes, the one after changes nothing, and state and cluster agree."""
    world.up()
    assert world.up().objects == []
    assert world.refresh().objects == []
    state = next(path for path in world.state.rglob("trial.json") if path.parent.name == "gpupool")
    checkpoint = json.loads(state.read_text())["checkpoint"]["latest"]
    assert not checkpoint.get("pending_operations")
    for tenant in world.spec["tenants"]:
        assert world.kube.api.get("v1", "ResourceQuota", "gpupool", tenant["namespace"]) is not None


def test_the_next_up_completes_after_the_api_server_stopped(
    world: Any, control_plane: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_tenants(world)
    pids = {part.name: part.pid for part in control_plane.status().components}
    failure: list[StackError] = []

    begun, under_way = list[str](), threading.Event()

    def notify(step: str) -> None:
        begun.append(step)
        if sum(line.startswith("create ") for line in begun) >= 20:
            under_way.set()

    def run() -> None:
        try:
            stack.up(stack.read(world.file), (), notify)
        except StackError as error:
            failure.append(error)

    with monkeypatch.context() as patched:
        patched.setattr(kube_api, "REQUEST_SECONDS", SILENCE)
        thread = threading.Thread(target=run)
        thread.start()
        assert under_way.wait(PATIENCE), begun
        os.kill(pids["kube-apiserver"], signal.SIGSTOP)
        try:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "up hangs while the API server does not answer"
        finally:
            os.kill(pids["kube-apiserver"], signal.SIGCONT)
    assert failure, "up was through before the API server stopped: make the environment larger"
    assert "does not answer" in str(failure[0])
    assert "Traceback" not in str(failure[0])
    assert_whole(world)


@pytest.mark.parametrize("who", ["everything", "gpupool alone", "the engine alone"])
def test_the_next_up_completes_after_a_kill(
    world: Any, environment_variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    many_tenants(world)
    process = begun(world, environment_variables, "up", 20)
    ours = psutil.Process(process.pid)
    children = ours.children(recursive=True)
    assert children, "no engine"
    victims = {"everything": [ours, *children], "gpupool alone": [ours], "the engine alone": children}
    for victim in victims[who]:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
    output = process.communicate(timeout=PATIENCE)[0].decode()
    assert process.returncode != 0, output
    assert "Traceback" not in output
    # An engine that is left alone goes by itself, and the next `up` waits for its lock.
    monkeypatch.setattr("gpupool.infra.locks.PATIENCE_SECONDS", PATIENCE)
    assert_whole(world)


def test_ctrl_c_stops_cleanly(world: Any, environment_variables: dict[str, str]) -> None:
    many_tenants(world)
    # At the first object: an orderly stop finishes what is under way, which must not be all there is.
    process = begun(world, environment_variables, "up", 1)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=PATIENCE)[0].decode()
    assert process.returncode != 0, output
    assert "Traceback" not in output
    notice = "stopping after the current operations (Ctrl-C again to stop at once)\n"
    assert notice in output
    after = output.partition(notice)[2]
    assert not re.search("^(create|update) ", after, re.MULTILINE), "goes on"
    assert "canceled" not in after
    assert "interrupted; continue with: gpupool up trial" in after
    assert_whole(world)
    # A deletion that is only waited for is not finished, and the engine says so of each.
    process = begun(world, environment_variables, "destroy", 1)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=PATIENCE)[0].decode()
    assert process.returncode != 0, output
    assert output.endswith("interrupted; continue with: gpupool destroy trial\n")
    world.destroy()


def test_a_lock_of_a_dead_process_is_removed_and_one_of_a_living_respected(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.up()
    folder = world.state / ".pulumi" / "locks" / "organization" / "gpupool" / "trial"
    folder.mkdir(parents=True, exist_ok=True)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lock = folder / "00000000-0000-0000-0000-000000000000.json"
    now = datetime.now(UTC).isoformat()
    content = {"username": "someone", "hostname": os.uname().nodename, "timestamp": now}
    lock.write_text(json.dumps({**content, "pid": gone.pid}))
    assert "removed the lock" in world.up().notes[0]
    assert not lock.exists()

    monkeypatch.setattr("gpupool.infra.locks.PATIENCE_SECONDS", 0.5)
    lock.write_text(json.dumps({**content, "pid": os.getpid()}))
    with pytest.raises(LockedError, match=f"another run works on trial: process {os.getpid()} of someone"):
        world.up()
    lock.unlink()


def test_a_half_written_sidecar_does_not_hide_the_state(world: Any) -> None:
    """An engine killed while it writes state with the default file backend leaves this behind."""
    world.up()
    state = next(path for path in world.state.rglob("trial.json") if path.parent.name == "gpupool")
    assert not list(state.parent.glob("*.attrs")), "our own backend has none"
    state.with_name("trial.json.attrs").touch()
    done = world.up()
    assert done.objects == []
    assert "partial files" in done.notes[0]


def test_an_engine_that_does_not_answer_at_first_is_asked_again(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC may call a server unavailable that has just started: no reason for a run to fail."""
    sdk = importlib.import_module("pulumi.runtime.stack")
    real = sdk._load_monitor_feature_support
    asked = []

    async def unavailable(times: int) -> None:
        asked.append(times)
        if len(asked) <= times:
            raise pulumi.RunError("Resource monitor has terminated, shutting down")
        await real()

    monkeypatch.setattr(sdk, "_load_monitor_feature_support", lambda: unavailable(1))
    assert world.up().outcome.counts["create"] > 20
    assert len(asked) == 2
    asked.clear()
    monkeypatch.setattr(sdk, "_load_monitor_feature_support", lambda: unavailable(9))
    with pytest.raises(StackError, match="Resource monitor has terminated"):
        world.preview()
    assert len(asked) == 2
