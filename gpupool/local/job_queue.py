"""The job queue in the background, beside the local control plane: `gpupool serve` and a NATS server.

Two processes that outlive the command, with their state in one folder; PostgreSQL is the service's own child.
It starts and stops them and knows nothing of jobs.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpupool import project, shipped
from gpupool.address_secrets import DATABASE, NATS
from gpupool.findings import GpupoolError
from gpupool.local import health, processes
from gpupool.local.credentials import write_private
from gpupool.local.ports import free_port
from gpupool.local.processes import Running
from gpupool.programs.binaries import locate

START_S = 60.0
GRACE_S = 20.0
KEPT = ("PATH", "HOME", "TMPDIR", "LANG", DATABASE)
"""What the service gets of the caller's environment."""
_NATS_USER = "gpupool"


@dataclass(frozen=True, slots=True)
class Started:
    """A queue in the background."""

    address: str
    log: Path
    already: bool
    """Whether it ran before, with the same options."""


class JobQueue:
    """The background processes whose state is in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "serve.log"
        self._state = folder / "serve.json"
        self._nats_settings = folder / "nats.conf"

    def start(
        self, arguments: Sequence[str], port: int, report: Callable[[str], None] = lambda _: None
    ) -> Started:
        """Run `gpupool serve` with these arguments until `stop`; a queue that runs with others is restarted.

        Raises GpupoolError with the end of its log where it does not become ready.
        """
        address = f"http://127.0.0.1:{port}"
        # Not that of earlier releases, whose NATS asked for nothing.
        fingerprint = json.dumps([NATS, *arguments])
        running = self._running()
        service = running.get("serve")
        if (
            service
            and service.fingerprint == fingerprint
            and processes.alive(service)
            and health.answers(f"{address}/readyz")
        ):
            return Started(address, self.log, already=True)
        self.stop()
        project.make_private(self.folder)
        report("nats-server")
        nats, url = self._nats(report)
        report("gpupool serve")
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        environment |= shipped.variables()
        environment |= {"GPUPOOL_QUEUE_DIR": str(self.folder), "GPUPOOL_PORT": str(port)}
        environment[NATS] = url  # not on the command line, which every account of the machine reads
        argv = shipped.command("gpupool.cli.main", *arguments)
        service = processes.spawn(argv, environment, Path.cwd(), self.log, fingerprint)
        write_private(self._state, json.dumps({"nats": nats.as_dict(), "serve": service.as_dict()}))
        deadline = time.monotonic() + START_S
        while not health.answers(f"{address}/readyz"):
            if not processes.alive(service) or time.monotonic() > deadline:
                end = "\n".join(self.log.read_text(errors="replace").splitlines()[-8:])
                self.stop()
                raise GpupoolError(f"the job queue does not become ready; the end of {self.log}:\n{end}")
            time.sleep(0.1)
        return Started(address, self.log, already=False)

    def stop(self) -> bool:
        """End both processes in order; the data stays. False where none ran."""
        running = self._running()
        alive = [running[name] for name in ("serve", "nats") if name in running]
        alive = [process for process in alive if processes.alive(process)]
        for process in alive:
            processes.stop([process.pid], GRACE_S)
        self._state.unlink(missing_ok=True)
        return bool(alive)

    def purge(self) -> None:
        """Remove the data of a queue that does not run. What else is in the folder stays."""
        for name in ("data", "nats", "owner.pid", "log", "nats.conf", "nats.log", "serve.log", "token"):
            path = self.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def _nats(self, report: Callable[[str], None]) -> tuple[Running, str]:
        program = locate("nats-server", report)
        port = free_port()
        folder = self.folder / "nats"
        project.make_private(folder)
        folder.chmod(0o700)  # an earlier release's was open
        password = secrets.token_urlsafe(32)
        settings = {
            "listen": f"127.0.0.1:{port}",
            "jetstream": {"store_dir": str(folder)},
            "authorization": {"user": _NATS_USER, "password": password},
        }
        # NATS reads JSON as well as its own format.
        write_private(self._nats_settings, json.dumps(settings, ensure_ascii=False))
        argv = (str(program), "-c", str(self._nats_settings))
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        process = processes.spawn(argv, environment, folder, self.folder / "nats.log", "")
        return process, f"nats://{_NATS_USER}:{password}@127.0.0.1:{port}"

    def _running(self) -> dict[str, Running]:
        try:
            state = json.loads(self._state.read_text())
            return {name: Running.from_dict(values) for name, values in state.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}
