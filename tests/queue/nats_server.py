"""A real nats-server for tests."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path

from gpupool.local.ports import free_port

_PATIENCE_S = 20.0


class NatsServer:
    """nats-server with JetStream on a free port; it can be stopped and started again with its data."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [self.program, "-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", self.folder]
        with (self.folder.parent / "nats.log").open("ab") as log:
            self._process = subprocess.Popen([str(part) for part in command], stderr=log, stdout=log)
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0 and probe.recv(4) == b"INFO":
                    return
            time.sleep(0.05)
        raise AssertionError((self.folder.parent / "nats.log").read_text())

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
