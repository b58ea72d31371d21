"""The local control plane starts, is repaired after every kind of death, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import psutil
import pytest
import yaml

from gpupool.environment import shipped
from gpupool.live.cluster.kube_api import ApiError, KubeApi
from gpupool.local import components, crds, processes
from gpupool.local.components import NAMES
from gpupool.local.control_plane import ControlPlane
from gpupool.programs.failures import LocalError
from tests.cluster.kube import PATIENCE_SECONDS, Kube


@pytest.fixture(scope="module")
def plane(programs: None) -> Iterator[ControlPlane]:
    """A control plane of this file's own, to be maltreated; every test leaves it healthy."""
    with tempfile.TemporaryDirectory(prefix="gpupool-test-") as folder:
        own = ControlPlane(Path(folder) / "local")
        own.up()
        yield own
        own.down()


def pids(plane: ControlPlane) -> dict[str, int | None]:
    return {part.name: part.pid for part in plane.status().components}


def kill(pid: int | None, kind: signal.Signals = signal.SIGKILL) -> None:
    assert pid is not None
    os.kill(pid, kind)
    if kind == signal.SIGKILL:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while processes.start_mark(pid) is not None:
            assert time.monotonic() < deadline, f"{pid} is still there"
            time.sleep(0.02)


def put_marker(plane: ControlPlane, name: str) -> None:
    api = plane.api()
    thing = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    }
    api.apply(thing, "tests")
    api.close()


def has_marker(plane: ControlPlane, name: str) -> bool:
    api = plane.api()
    found = api.get("v1", "ConfigMap", name, "default") is not None
    api.close()
    return found


def test_a_second_up_does_and_changes_nothing(plane: ControlPlane) -> None:
    before = pids(plane)
    steps: list[str] = []
    assert plane.up(steps.append).healthy
    assert steps == []
    assert pids(plane) == before


def test_another_shell_starts_nothing_anew(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """`eval "$(gpupool local env)"` changes PATH, and the next one's language may be another."""
    before = pids(plane)
    monkeypatch.setenv("PATH", "/usr/games", prepend=os.pathsep)
    monkeypatch.setenv("LANG", "nb_NO.UTF-8")
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    assert plane.up().healthy
    assert pids(plane) == before


def test_it_stays_under_its_memory(plane: ControlPlane) -> None:
    used = sum(part.memory_mib or 0 for part in plane.status().components)
    assert 100 < used < 700, f"{used} MiB; usually 510"


@pytest.mark.parametrize("name", NAMES)
def test_a_dead_part_is_named_and_brought_back(plane: ControlPlane, name: str) -> None:
    put_marker(plane, f"before-{name}")
    before = pids(plane)
    kill(before[name])
    status = plane.status()
    assert not status.healthy
    assert any(name in problem and str(plane.layout.log(name)) in problem for problem in status.problems)
    assert plane.up().healthy
    after = pids(plane)
    assert after[name] != before[name]
    if name not in components.CORE:
        others = set(NAMES) - {name}
        assert {other: after[other] for other in others} == {other: before[other] for other in others}
    assert has_marker(plane, f"before-{name}"), "the data must survive a repair"


def test_everything_killed_at_once_comes_back_with_its_data(plane: ControlPlane) -> None:
    put_marker(plane, "before-massacre")
    for pid in pids(plane).values():
        kill(pid)
    assert plane.up().healthy
    assert has_marker(plane, "before-massacre")


def test_a_server_that_hangs_is_replaced(plane: ControlPlane) -> None:
    before = pids(plane)
    kill(before["kube-apiserver"], signal.SIGSTOP)
    assert any("does not answer" in problem for problem in plane.status().problems)
    assert plane.up().healthy
    assert pids(plane)["kube-apiserver"] != before["kube-apiserver"]


def test_a_pid_that_belongs_to_somebody_else_now_is_left_alone(plane: ControlPlane) -> None:
    """The state file names a pid which the system has given to another program meanwhile."""
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        kill(pids(plane)["kwok"])
        state = json.loads(plane.layout.state.read_text())
        state["components"]["kwok"]["pid"] = bystander.pid
        plane.layout.state.write_text(json.dumps(state))
        assert not next(part for part in plane.status().components if part.name == "kwok").running
        assert plane.up().healthy
        assert bystander.poll() is None, "an unrelated process was killed"
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("content", [None, '{"ports": {}}'])
def test_a_lost_or_damaged_state_file_leaves_no_orphans(plane: ControlPlane, content: str | None) -> None:
    if content is None:
        plane.layout.state.unlink()
    else:
        plane.layout.state.write_text(content)
    assert not plane.status().exists
    assert plane.up().healthy
    assert sorted(processes.marked(plane.layout.data)) == sorted(filter(None, pids(plane).values()))


def test_secrets_are_in_private_files_and_nowhere_else(plane: ControlPlane) -> None:
    layout = plane.layout
    tokens = [line.split(",")[0] for line in layout.tokens.read_text().splitlines()]
    assert len(set(tokens)) == len(components.USERS)
    private = [layout.tokens, layout.service_account_key, layout.kubeconfig, layout.state]
    private += [layout.kubeconfig_of(user) for user in components.USERS if user != "admin"]
    for path in private:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(layout.data.stat().st_mode) == 0o700
    for pid in pids(plane).values():
        process = psutil.Process(pid)
        shown = " ".join(process.cmdline()) + " ".join(process.environ().values())
        assert not any(token in shown for token in tokens), process.name()
    for log in layout.logs.iterdir():
        assert not any(token in log.read_text(errors="replace") for token in tokens), log


def test_the_api_is_reachable_from_this_machine_only_and_with_a_token_only(
    plane: ControlPlane, tmp_path: Path
) -> None:
    api = plane.api()
    assert api.request("GET", "/version")[1]["gitVersion"].startswith("v1.")
    api.close()
    token = yaml.safe_load(plane.kubeconfig.read_text())["users"][0]["user"]["token"]
    guessed = tmp_path / "kubeconfig"
    guessed.write_text(plane.kubeconfig.read_text().replace(token, "wrong"))
    with pytest.raises(ApiError, match="Unauthorized"):
        KubeApi.connect(guessed).request("GET", "/api/v1/nodes")
    listening = [
        connection.laddr
        for pid in (pids(plane)["kube-apiserver"], pids(plane)["etcd"])
        for connection in psutil.Process(pid).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert [address.ip for address in listening] == ["127.0.0.1"]


def test_two_side_by_side_and_down_leaves_nothing(plane: ControlPlane, data_folder: Path) -> None:
    other = ControlPlane(data_folder)
    status = other.up()
    assert status.healthy
    assert plane.status().healthy
    put_marker(other, "only-here")
    assert not has_marker(plane, "only-here")
    (other.layout.pulumi / "state").write_text("anything")
    ports = json.loads(other.layout.state.read_text())["ports"].values()
    theirs = [pid for pid in pids(other).values() if pid]
    assert other.down()
    assert not data_folder.exists()
    assert processes.marked(data_folder) == []
    assert [pid for pid in theirs if processes.start_mark(pid)] == []
    for port in ports:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0, f"port {port} is still open"
    assert plane.status().healthy
    assert not other.down(), "a second down has nothing to do"


def test_it_survives_the_command_that_started_it(data_folder: Path) -> None:
    def gpupool(*arguments: str) -> Any:
        command = [sys.executable, "-m", "gpupool.cli.main", "local", *arguments, "--dir", str(data_folder)]
        done = subprocess.run(
            [*command, "--format", "json"], cwd=shipped.library(), capture_output=True, text=True, check=False
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    assert gpupool("status")[0] == 1
    code, shown = gpupool("up")
    assert code == 0
    assert shown["healthy"]
    code, shown = gpupool("status")
    assert code == 0
    assert [part["name"] for part in shown["components"]] == list(NAMES)
    assert gpupool("env")[1]["KUBECONFIG"] == str(data_folder / "kubeconfig")
    assert gpupool("down") == (0, {"folder": str(data_folder), "stopped": True, "job_queue_stopped": False})
    assert not data_folder.exists()


def test_a_start_that_fails_shows_why_and_stops_what_it_started(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "karpenter"
    broken.write_text("#!/bin/sh\necho the moon is in the wrong house\nexit 3\n")
    broken.chmod(0o755)
    plane = ControlPlane(data_folder)
    monkeypatch.setenv("GPUPOOL_BIN_DIR", str(tmp_path))
    with pytest.raises(LocalError, match=r"(?s)karpenter ended.*karpenter\.log.*wrong house"):
        plane.up()
    assert processes.marked(data_folder) == []
    assert not plane.status().exists
    assert "wrong house" in plane.layout.log("karpenter").read_text()
    monkeypatch.delenv("GPUPOOL_BIN_DIR")
    assert plane.up().healthy


def test_an_interrupted_start_leaves_no_process(data_folder: Path) -> None:
    plane = ControlPlane(data_folder)

    def interrupt(step: str) -> None:
        if "kwok" in step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plane.up(interrupt)
    assert processes.marked(data_folder) == []
    assert not plane.status().exists


def test_two_commands_at_once_make_one_control_plane(data_folder: Path) -> None:
    command = [sys.executable, "-m", "gpupool.cli.main", "local", "up", "--dir", str(data_folder)]
    both = [
        subprocess.Popen(command, cwd=shipped.library(), stdout=DEVNULL, stderr=DEVNULL) for _ in range(2)
    ]
    assert [one.wait(PATIENCE_SECONDS) for one in both] == [0, 0]
    assert len(processes.marked(data_folder)) == len(NAMES)


def test_kubectl_finds_kinds_as_soon_as_they_are_served(plane: ControlPlane) -> None:
    """Discovery follows the server by up to seconds where the kinds had been there before."""
    kube = Kube(plane)
    for _ in range(3):
        with kube.kinds(Path(__file__).parent / "examples" / "crds.yaml"):
            listed = json.dumps(kube.api.request("GET", "/apis", accept=crds.DISCOVERY)[1])
            assert '"rayclusters"' in listed
            assert '"sparkapplications"' in listed
    kube.api.close()


def test_a_job_takes_the_time_that_its_annotation_says(plane: ControlPlane) -> None:
    api = plane.api()
    api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"}})
    started = time.monotonic()
    for name, duration in (("short", "1s"), ("long", "4s")):
        api.create(job(name, duration))
    ended: dict[str, float] = {}
    while len(ended) < 2 and time.monotonic() - started < PATIENCE_SECONDS:
        for name in ("short", "long"):
            if name not in ended and _done(api, name):
                ended[name] = time.monotonic() - started
        time.sleep(0.1)
    assert ended["long"] >= 4.0
    assert 1.0 <= ended["short"] < ended["long"]
    api.close()


def _done(api: KubeApi, name: str) -> bool:
    found = api.get("batch/v1", "Job", name, "default")
    assert found is not None
    return bool(found["status"].get("succeeded") == 1)


def job(name: str, duration: str) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "template": {
                "metadata": {"annotations": {"gpupool.dev/simulated-duration": duration}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "work", "image": "registry.example/work:1"}],
                },
            }
        },
    }
