"""The job queue in the background, beside the local control plane: `gpupool serve` and a NATS server.

Two processes that outlive the command, with their state in one folder; PostgreSQL is the service's own child.
It starts and stops them and knows nothing of jobs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupool import __version__
from gpupool.environment import project, shipped
from gpupool.findings import GpupoolError
from gpupool.findings.address_secrets import DATABASE, NATS
from gpupool.local import health, processes
from gpupool.local.credentials import write_private
from gpupool.local.ports import free_port
from gpupool.local.processes import RunningProcess
from gpupool.programs.binaries import locate

START_S = 60.0
UNWELL_S = 10.0
"""A queue that has started and can't work on its cluster is waited for so long: it may be about to."""
NO_CLUSTER = "cluster-unavailable"
"""The problem with which a queue says that (docs/queue-problems.md)."""
GRACE_S = 20.0
KEPT = ("PATH", "HOME", "TMPDIR", "LANG", DATABASE)
"""What the service gets of the caller's environment."""
_NATS_USER = "gpupool"


@dataclass(frozen=True, slots=True)
class StartedQueue:
    """A queue in the background."""

    address: str
    log: Path
    already: bool
    """Whether it ran before, as it would be started now."""
    replaced: tuple[str, ...] = ()
    """What was another thing with the one that ran before, and was replaced."""
    trouble: str | None = None
    """Why it can't work on its cluster at present."""


class JobQueue:
    """The background processes whose state is in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "serve.log"
        self._state = folder / "serve.json"
        self._nats_settings = folder / "nats.conf"

    def start(
        self,
        arguments: Sequence[str],
        port: int,
        report: Callable[[str], None] = lambda _: None,
        *,
        asked: Mapping[str, str] | None = None,
        kubeconfig: Path | None = None,
    ) -> StartedQueue:
        """Run `gpupool serve` with these arguments until `stop`; a queue that runs otherwise than it would be
        started now is replaced. `asked`: what else it is started with, each under a name for people.

        Raises GpupoolError with the end of its log where it does not become ready; one that only can't work
        on its cluster goes on.
        """
        address = f"http://127.0.0.1:{port}"
        wanted = {
            "options": " ".join(arguments),
            "port": str(port),
            "version": f"{__version__} {_newest_source()}",
            "database": _digest(os.environ.get(DATABASE, "")),
            **(asked or {}),
        }
        if kubeconfig is not None:
            wanted |= {"kubeconfig": str(kubeconfig), "cluster": _digest(_content(kubeconfig))}
        service = self._running().get("serve")
        before = _parts(service) if service and processes.alive(service) else None
        if before == wanted:
            unwell = _unwell(address)
            if unwell is not None or health.answers(f"{address}/readyz"):
                return StartedQueue(address, self.log, already=True, trouble=unwell)
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
        service = processes.spawn(argv, environment, Path.cwd(), self.log, json.dumps(wanted))
        write_private(self._state, json.dumps({"nats": nats.as_dict(), "serve": service.as_dict()}))
        deadline = time.monotonic() + START_S
        unwell_since: float | None = None
        while not health.answers(f"{address}/readyz"):
            trouble = _unwell(address)
            unwell_since = (unwell_since or time.monotonic()) if trouble else None
            if unwell_since and time.monotonic() - unwell_since > UNWELL_S:
                return StartedQueue(address, self.log, False, _differing(before, wanted), trouble)
            if not processes.alive(service) or time.monotonic() > deadline:
                end = "\n".join(self.log.read_text(errors="replace").splitlines()[-8:])
                self.stop()
                raise GpupoolError(f"the job queue did not become ready; the end of {self.log}:\n{end}")
            time.sleep(0.1)
        return StartedQueue(address, self.log, already=False, replaced=_differing(before, wanted))

    def works_in(self, folder: Path) -> bool:
        """Whether one runs that works on the cluster whose files are in this folder."""
        service = self._running().get("serve")
        if service is None or not processes.alive(service):
            return False
        return Path(_parts(service).get("kubeconfig") or os.sep).is_relative_to(folder)

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

    def _nats(self, report: Callable[[str], None]) -> tuple[RunningProcess, str]:
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

    def _running(self) -> dict[str, RunningProcess]:
        try:
            state = json.loads(self._state.read_text())
            return {name: RunningProcess.from_dict(values) for name, values in state.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}


def _parts(service: RunningProcess) -> dict[str, str]:
    """What it was started with, by name; nothing of earlier releases, which wrote that otherwise."""
    try:
        parts = json.loads(service.fingerprint)
    except ValueError:
        return {}
    return parts if isinstance(parts, dict) else {}


def _differing(before: Mapping[str, str] | None, wanted: Mapping[str, str]) -> tuple[str, ...]:
    if not before:  # none, or an earlier release's
        return () if before is None else ("version",)
    return tuple(sorted(name for name in {*before, *wanted} if before.get(name) != wanted.get(name)))


def _unwell(address: str) -> str | None:
    """Why a queue that answers can't work on its cluster; None where it can, or does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(f"{address}/readyz", timeout=health.PROBE_SECONDS).close()
    except urllib.error.HTTPError as error:
        try:
            problem: Any = json.loads(error.read())
        except (OSError, ValueError):
            return None
        if isinstance(problem, dict) and str(problem.get("type")).endswith(f"/{NO_CLUSTER}"):
            return str(problem.get("detail"))
    except OSError:
        pass
    return None


def _digest(text: str) -> str:
    """Tells two texts apart without holding them: there are passwords in them."""
    return hashlib.sha256(text.encode()).hexdigest()


def _content(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _newest_source() -> int:
    """When this gpupool was changed last: a checkout has one version for long."""
    sources = (shipped.library() / "gpupool").rglob("*.py")
    return max((path.stat().st_mtime_ns for path in sources), default=0)
