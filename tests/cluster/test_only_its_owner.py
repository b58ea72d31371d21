"""What `make up` leaves running is its owner's alone: every listener, every file, and the events."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from gpupool.environment import project
from gpupool.local import processes
from gpupool.local.control_plane import ControlPlane
from gpupool.local.job_queue import JobQueue
from gpupool.local.ports import free_port
from gpupool.queue.store.embedded import Embedded

ANOTHER = 61_234
"""A uid that no account has."""
OPENS = """
import os, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
for path in sys.stdin.read().split("\\0"):
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        print(path)
    except OSError:
        pass
"""


@dataclass(frozen=True)
class Running:
    """A control plane and a queue of one project, in a folder that everybody enters."""

    folder: Path
    plane: ControlPlane
    queue: JobQueue
    address: str
    """Of the queue's API."""

    def processes(self) -> list[psutil.Process]:
        """Everything that was started, and what that has started."""
        pids = [part.pid for part in self.plane.status().components if part.pid]
        state = json.loads((self.queue.folder / "serve.json").read_text())
        pids += [row["pid"] for row in state.values()]
        server = Embedded(self.queue.folder).server_pid()
        assert server is not None
        pids.append(server)
        return [psutil.Process(pid) for pid in {*pids, *processes.descendants(pids)}]


@pytest.fixture(scope="module")
def running(programs: None) -> Iterator[Running]:
    folder = Path(tempfile.mkdtemp(prefix="gpupool-owner-"))
    folder.chmod(0o755)
    (folder / project.OWN).mkdir(mode=0o755)  # as earlier releases left it
    plane = ControlPlane(folder / project.OWN / "local")
    queue = JobQueue(folder / project.OWN / "queue")
    try:
        plane.up()
        options = ("--dev", "--echo", "http://example", "--kubeconfig", str(plane.kubeconfig))
        started = queue.start(["serve", "local", *options], free_port())
        yield Running(folder, plane, queue, started.address)
    finally:
        queue.stop()
        queue.purge()
        plane.down()
        left = list(folder.rglob("*"))
        shutil.rmtree(folder)
    assert not left


def entered_by_others(folder: Path) -> bool:
    """Whether another account gets into the folder."""
    return all(place.stat().st_mode & 0o011 for place in (folder, *folder.parents))


def test_every_listener_is_on_loopback_or_in_a_folder_of_its_owner(running: Running) -> None:
    listening, wrong = 0, []
    for process in running.processes():
        for row in process.net_connections("all"):
            if row.family == socket.AF_UNIX:
                if not row.laddr:
                    continue
                place = Path(process.cwd(), str(row.laddr)).parent
                bad = str(row.laddr).startswith("@") or entered_by_others(place)
            elif row.status == psutil.CONN_LISTEN or row.type == socket.SOCK_DGRAM:
                address = ipaddress.ip_address(row.laddr.ip)
                bad = not (getattr(address, "ipv4_mapped", None) or address).is_loopback
            else:
                continue
            listening += 1
            if bad:
                wrong.append((process.name(), row.laddr))
    assert not wrong
    assert listening > 8, "API server, etcd, Karpenter twice, pod runner, NATS, queue, PostgreSQL"


def test_no_file_is_opened_by_another_account(running: Running) -> None:
    own = running.folder / project.OWN
    files = [path for path in own.rglob("*") if path.is_file() or path.is_dir() or path.is_socket()]
    names = {path.name for path in files}
    assert {"serve.json", "serve.log", "nats.log", "nats.conf", "log", "kubeconfig", "karpenter.log"} <= names
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    # And each by itself, should a folder above be opened: those that are no folders.
    queue = [path for path in running.queue.folder.iterdir() if path.is_file()]
    assert not [path for path in queue if path.stat().st_mode & 0o077]
    logs = list(running.plane.layout.logs.iterdir())
    assert not [path for path in logs if path.stat().st_mode & 0o077]
    if os.geteuid() == 0:
        for uid in (ANOTHER, 65534):
            done = subprocess.run(
                [sys.executable, "-c", OPENS, str(uid)],
                input="\0".join(map(str, [own, *files])),
                capture_output=True,
                text=True,
                check=True,
            )
            assert done.stdout == ""


def test_no_one_hears_events_without_the_password(running: Running) -> None:
    settings = json.loads((running.queue.folder / "nats.conf").read_text())
    host, _, port = settings["listen"].partition(":")
    for credential in ({}, {"user": "gpupool", "pass": "x"}, {"user": "", "pass": ""}):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            stream = connection.makefile("rwb")
            assert json.loads(stream.readline().removeprefix(b"INFO "))["auth_required"]
            stream.write(
                f"CONNECT {json.dumps({'verbose': False, **credential})}\r\nSUB > 1\r\nPING\r\n".encode()
            )
            stream.flush()
            assert b"Authorization Violation" in stream.readline()
    password = settings["authorization"]["password"]
    commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert not [command for command in commands if password in command]
    texts = [path for path in running.queue.folder.rglob("*") if path.is_file() and path.name != "nats.conf"]
    assert not [path for path in texts if password.encode() in path.read_bytes()]


def test_the_relay_uses_the_password(running: Running) -> None:
    """Without it the queue would run as well, and its events would wait."""
    job = {"gpu_pool_requested": "t4", "target_url": "http://example", "request_json": {"x": 1}}
    headers = {"Content-Type": "application/json", "X-Tenant-Id": "vision", "X-Project-Id": "ocr"}
    request = urllib.request.Request(
        f"{running.address}/api/v1/gpu-jobs", json.dumps(job).encode(), {**headers, "X-User-Id": "demo"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status in (200, 201, 202)
    port = json.loads((running.queue.folder / "nats.conf").read_text())["listen"].partition(":")[2]
    (service,) = [process for process in running.processes() if "serve" in process.cmdline()]
    deadline = time.monotonic() + 60
    while not any(row.raddr and row.raddr.port == int(port) for row in service.net_connections("inet")):
        assert time.monotonic() < deadline, running.queue.log.read_text()
        time.sleep(0.1)
    assert "Authorization" not in running.queue.log.read_text()
    assert "NATS has not accepted" not in running.queue.log.read_text()
