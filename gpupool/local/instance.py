"""The running state of one control plane: lock, state file, and the processes it names.

`control_plane` decides what should run; this module knows what does. Used under the lock only, apart
from `read`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path

from gpupool.environment import project
from gpupool.live.cluster.local_layout import Layout
from gpupool.local import components, credentials, health, processes
from gpupool.local.components import InstanceSetting, Ports
from gpupool.local.ports import free_ports
from gpupool.local.processes import RunningProcess
from gpupool.programs.failures import LocalError

_TAIL_LINES = 15
_LOCK_SECONDS = 120.0
_READY_SECONDS = 120.0


class Instance:
    """What runs for one data folder."""

    def __init__(self, layout: Layout, ports: Ports | None, running: dict[str, RunningProcess]) -> None:
        self.layout = layout
        self.ports = ports
        """None until a start got as far as choosing them."""
        self.running = running
        """By component name; recorded, not necessarily alive."""

    @classmethod
    def read(cls, layout: Layout) -> Instance:
        """The recorded state; an absent or damaged state file is an unknown instance."""
        if not layout.owned:
            return cls(layout, None, {})
        try:
            state = json.loads(layout.state.read_text())
            ports = Ports(**state["ports"])
            running = {name: RunningProcess.from_dict(row) for name, row in state["components"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(layout, None, {})
        return cls(layout, ports, running)

    @classmethod
    @contextlib.contextmanager
    def locked(cls, layout: Layout, make: bool) -> Iterator[Instance]:
        """The recorded state, with every other `up` and `down` of the folder kept out.

        The lock is on the folder itself, so that nothing of it remains when the folder goes. `make` makes
        a folder that is not there and claims an empty one. Raises LocalError when another process holds
        it for two minutes, or when the folder belongs to another user or can't be written.
        """
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                descriptor = _try_lock(layout, make)
            except OSError as error:
                raise LocalError(unusable(layout, error)) from error
            if descriptor is not None:
                break
            if time.monotonic() > deadline:
                raise LocalError(f"{layout.data}: another gpupool has been working here for 2 min")
            time.sleep(0.1)
        try:
            yield cls.read(layout)
        finally:
            os.close(descriptor)

    def require_ports(self) -> Ports:
        """The ports of an instance that has been started."""
        if self.ports is None:
            raise LocalError(f"{self.layout.data}: not started")
        return self.ports

    def choose_ports(self) -> None:
        """Keep the ports of an earlier start as far as they are free, so that kubeconfigs stay good."""
        wanted = asdict(self.ports) if self.ports else {port.name: 0 for port in fields(Ports)}
        self.ports = Ports(**free_ports(wanted))
        self.save()

    def save(self) -> None:
        """Write the state file."""
        state = {
            "ports": asdict(self.require_ports()),
            "components": {name: running.as_dict() for name, running in self.running.items()},
        }
        credentials.write_private(self.layout.state, json.dumps(state, indent=1))

    def write_kubeconfigs(self) -> list[Path]:
        """Write every kubeconfig for the present port and certificate; those that were not so before."""
        tokens = credentials.ensure(self.layout, components.USERS)
        return credentials.write_kubeconfigs(
            self.layout, f"https://127.0.0.1:{self.require_ports().api}", tokens
        )

    def dead_or_outdated(self, programs: Mapping[str, Path], names: Iterable[str]) -> list[str]:
        """Those of `names` that don't run, or run otherwise than they would be started today."""
        if self.ports is None:
            return list(names)
        setting = InstanceSetting(self.layout, self.ports, programs)
        found = []
        for name in names:
            running = self.running.get(name)
            try:
                part = components.component(name, setting)
                current = running is not None and running.fingerprint == part.fingerprint
            except OSError:  # a file that it needs is gone
                current = False
            if running is None or not current or not processes.alive(running):
                found.append(name)
        return found

    def start(
        self, names: Iterable[str], programs: Mapping[str, Path], report: Callable[[str], None]
    ) -> None:
        """Start those of `names` that don't run as they should, and record each at once."""
        setting = InstanceSetting(self.layout, self.require_ports(), programs)
        credentials.ensure(self.layout, components.USERS)
        self.layout.pulumi.mkdir(exist_ok=True, mode=0o700)
        for name in self.dead_or_outdated(programs, names):
            self.stop([name])
            report(f"starting {name}")
            components.ready_file(self.layout, name).unlink(missing_ok=True)
            part = components.component(name, setting)
            try:
                self.running[name] = processes.spawn(
                    part.argv, part.environment, self.layout.data, self.layout.log(name), part.fingerprint
                )
            except OSError as error:
                raise LocalError(f"can't start {name}: {error}") from error
            self.save()

    def start_core(self, programs: Mapping[str, Path], report: Callable[[str], None]) -> None:
        """Start the store and the API server, of which none runs, and return once they serve."""
        self.choose_ports()
        self.start(components.CORE, programs, report)
        self.wait("kube-apiserver", lambda: credentials.certificate_written(self.layout))
        self.write_kubeconfigs()
        self.wait("kube-apiserver", lambda: health.serves(self.layout))

    def wait(self, culprit: str, ready: Callable[[], bool]) -> None:
        """Wait until `ready`. Raises LocalError for a part that died, or for `culprit` when time is up."""
        deadline = time.monotonic() + _READY_SECONDS
        while not ready():
            self.check_alive()
            if time.monotonic() > deadline:
                raise LocalError(self.blame(culprit, f"is not ready after {_READY_SECONDS:.0f} s"))
            time.sleep(0.05)

    def stop(self, names: Iterable[str]) -> None:
        """Stop the recorded processes of `names`, if they are still what was recorded."""
        pids = [self.running[name].pid for name in names if self._is_alive(name)]
        processes.stop(pids, 3.0)

    def stop_all(self, report: Callable[[str], None] = lambda _: None) -> None:
        """Stop every process of the instance, what depends on others first; recorded or only marked."""
        users = components.ON_REQUEST + components.AFTER_CRDS + components.AFTER_CORE
        for group in (users, ("kube-apiserver",), ("etcd",)):
            if any(self._is_alive(name) for name in group):
                report(f"stopping {', '.join(name for name in group if name in self.running)}")
                self.stop(group)
        self.running.clear()
        self.remove_strays()

    def keep_only(self, names: Iterable[str], report: Callable[[str], None]) -> None:
        """Stop what an earlier start was asked for and this one is not, with what it has started."""
        for name in set(self.running) - set(names):
            report(f"stopping {name}")
            self.stop([name])
            del self.running[name]
        self.save()
        self.remove_strays()

    def remove_strays(self) -> None:
        """Stop processes that carry this instance's mark, are not recorded and not started by one that is:
        leftovers of a crash."""
        recorded = [self.running[name].pid for name in self.running if self._is_alive(name)]
        kept = {*recorded, *processes.descendants(recorded)}
        processes.stop([pid for pid in processes.marked(self.layout.data) if pid not in kept], 3.0)

    def forget(self) -> None:
        """After a failed start: no state, so that nothing is taken for running; data and logs stay."""
        self.layout.state.unlink(missing_ok=True)
        self.layout.kubeconfig.unlink(missing_ok=True)

    def check_alive(self) -> None:
        """Raise LocalError naming the first started part that has died, with the end of its log."""
        for name in (*components.NAMES, *components.ON_REQUEST):
            if name in self.running and not self._is_alive(name):
                raise LocalError(self.blame(name, "ended right after it started"))

    def blame(self, name: str, what: str) -> str:
        """A message about one part with the end of its log and where all of it is."""
        log = self.layout.log(name)
        try:
            lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        except OSError:
            lines = []
        tail = "\n  ".join(line[:400] for line in lines) or "(empty)"
        return f"{name} {what}; the end of {log}:\n  {tail}"

    def _is_alive(self, name: str) -> bool:
        running = self.running.get(name)
        return running is not None and processes.alive(running)


def require_own(layout: Layout) -> None:
    """Raise LocalError when the folder holds things and is not a control plane's. Changes nothing."""
    try:
        foreign = not layout.owned and layout.data.exists() and any(layout.data.iterdir())
    except OSError as error:
        raise LocalError(unusable(layout, error)) from error
    if foreign:
        raise LocalError(
            f"{layout.data}: contains files but no {layout.marker.name}, so it is not a control plane's "
            "folder, and `gpupool local down` would delete its contents; use an empty or new folder (--dir "
            "or GPUPOOL_LOCAL_DIR)"
        )


def unusable(layout: Layout, error: OSError) -> str:
    """The message when the system denies access to the folder."""
    where = error.filename or layout.data
    return (
        f"{layout.data}: can't be the data folder ({where}: {error.strerror or error}); "
        "use a writable folder (--dir or GPUPOOL_LOCAL_DIR)"
    )


def _try_lock(layout: Layout, make: bool) -> int | None:
    """The descriptor that holds the lock on the folder; None while another process has it.

    Raises LocalError for somebody else's folder, OSError where there is none or it can't be entered.
    """
    if make:
        project.make_private(layout.data)
    descriptor = os.open(layout.data, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _same_folder(descriptor, layout.data):
            require_own(layout)
            if make and not layout.owned:
                layout.marker.write_text(
                    "Folder of a local control plane: `gpupool local down` removes it.\n"
                )
            os.chmod(layout.data, 0o700)  # it may have been there before, open to others
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _same_folder(descriptor: int, path: Path) -> bool:
    """Whether the folder that was locked is still the one at `path` (a `down` may have removed it)."""
    try:
        there = path.stat()
    except OSError:
        return False
    ours = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
