"""Start, inspect and stop one local control plane.

`up` is idempotent: what runs and is healthy is left alone, what died is started again on the same data,
what a crash left behind is cleaned away. There is no supervising process; the parts run in their own sessions
and outlive the command that started them. `down` leaves no process, port or folder.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from gpupool.environment import project
from gpupool.findings.json_output import JsonObject, Number
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.cluster.local_layout import Layout, default_folder
from gpupool.local import components, crds, credentials, health, processes
from gpupool.local.instance import Instance, require_own, unusable
from gpupool.programs import binaries
from gpupool.programs.failures import LocalError

Report = Callable[[str], None]
_ANCHOR = Path(__file__).with_name("parameters_anchor.yaml")


@dataclass(frozen=True)
class ComponentStatus:
    """What one part is doing."""

    name: str
    running: bool
    pid: int | None
    memory_mib: float | None
    log: Path


@dataclass(frozen=True)
class ControlPlaneStatus:
    """What a control plane is doing."""

    folder: Path
    exists: bool
    """Whether it was started and not stopped since."""
    healthy: bool
    """Every part runs and the API server and Karpenter say that they are ready."""
    server: str | None
    kubeconfig: Path
    components: tuple[ComponentStatus, ...]
    problems: tuple[str, ...]
    """What is wrong, each with the log to read."""
    repairable: bool
    """Whether starting it again puts right what is wrong."""

    def as_dict(self) -> dict[str, Any]:
        """Stable keys for `--format json`."""
        return _StatusJson.of(self)


class _ComponentJson(JsonObject):
    name: str
    running: bool
    pid: int | None
    memory_mib: Number | None = Field(serialization_alias="memoryMiB")
    log: Path


class _StatusJson(JsonObject):
    folder: Path
    exists: bool
    healthy: bool
    server: str | None
    kubeconfig: Path
    components: list[_ComponentJson]
    problems: list[str]


class ControlPlane:
    """The control plane whose data folder is given (default: GPUPOOL_LOCAL_DIR or .gpupool/local)."""

    def __init__(self, folder: Path | None = None) -> None:
        self.layout = Layout((folder or default_folder()).absolute())

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; exists while the control plane does."""
        return self.layout.kubeconfig

    def api(self) -> KubeApi:
        """A client with the administrator's rights. Raises KubeconfigError when there is no kubeconfig."""
        return KubeApi.connect(self.kubeconfig)

    def up(self, report: Report = lambda _: None, build: bool = False) -> ControlPlaneStatus:
        """Bring it up, or back up, and return its status once everything is ready.

        With `build` it runs only programs that were built here from their Go modules. Raises LocalError with
        the end of the part's log when it does not start; what was started is stopped again and the logs
        are kept.
        """
        require_own(self.layout)  # before minutes are spent on building
        programs = binaries.locate_all(components.programs(), report, build)
        definitions = components.definitions(report)
        components.fetch(report)
        with Instance.locked(self.layout, make=True) as instance:
            if self._healthy(instance, programs):
                return self.status()
            health.require_space(self.layout)  # reading still works: stop nothing
            try:
                self._start(instance, programs, definitions, report)
            except BaseException as error:
                instance.stop_all()
                instance.forget()
                if isinstance(error, OSError):
                    raise LocalError(unusable(self.layout, error)) from error
                raise
        return self.status()

    def down(self, report: Report = lambda _: None) -> bool:
        """Stop everything and remove the data folder; False when there was nothing to stop or remove.

        A folder without the marker that `up` leaves is not ours: nothing in it is touched. Raises
        LocalError when something of ours can't be removed.
        """
        if not self.layout.owned:
            strays = processes.marked(self.layout.data)
            processes.stop(strays, 3.0)
            return bool(strays)
        with Instance.locked(self.layout, make=False) as instance:
            instance.stop_all(report)
            self._remove()
        with contextlib.suppress(OSError):
            if self.layout.data.parent.name == project.OWN:
                self.layout.data.parent.rmdir()
        return True

    def _remove(self) -> None:
        """Remove the folder, its marker last, so that a `down` that was killed can be run again."""
        shutil.rmtree(self.layout.commands, ignore_errors=True)
        try:
            for _ in range(2):  # a log line may come in between
                for path in self.layout.data.iterdir():
                    if path.is_dir() and not path.is_symlink():
                        shutil.rmtree(path, ignore_errors=True)
                    elif path != self.layout.marker:
                        path.unlink(missing_ok=True)
            left = [path.name for path in self.layout.data.iterdir() if path != self.layout.marker]
            if left:
                raise LocalError(
                    f"{self.layout.data}: can't remove {', '.join(sorted(left))} in it; remove it manually"
                )
            self.layout.marker.unlink()
            self.layout.data.rmdir()
        except OSError as error:
            raise LocalError(f"{self.layout.data}: can't be removed: {error}") from error

    def status(self) -> ControlPlaneStatus:
        """What runs right now; changes nothing."""
        instance = Instance.read(self.layout)
        parts, problems = [], []
        for name in (*components.NAMES, *components.ON_REQUEST):
            if name not in components.NAMES and name not in instance.running:
                continue
            running = instance.running.get(name)
            is_alive = running is not None and processes.alive(running)
            pid = running.pid if running and is_alive else None
            memory = processes.memory_mib(pid) if pid else None
            parts.append(ComponentStatus(name, is_alive, pid, memory, self.layout.log(name)))
            if instance.ports and not is_alive:
                problems.append(f"{name} is not running; its log: {self.layout.log(name)}")
        if instance.ports and not problems:
            problems += health.problems(self.layout, instance.ports)
        return ControlPlaneStatus(
            folder=self.layout.data,
            exists=instance.ports is not None,
            healthy=instance.ports is not None and not problems,
            server=f"https://127.0.0.1:{instance.ports.api}" if instance.ports else None,
            kubeconfig=self.kubeconfig,
            components=tuple(parts),
            problems=tuple(problems),
            repairable=bool(problems) and not health.out_of_space(self.layout),
        )

    def _healthy(self, instance: Instance, programs: Mapping[str, Path]) -> bool:
        """Whether everything runs as it would be started today."""
        if instance.ports is None or not self.kubeconfig.exists():
            return False
        names = (*components.NAMES, *components.requested())
        if instance.dead_or_outdated(programs, names) or set(instance.running) - set(names):
            return False
        return not health.problems(self.layout, instance.ports)

    def _start(
        self,
        instance: Instance,
        programs: Mapping[str, Path],
        definitions: list[dict[str, Any]],
        report: Report,
    ) -> None:
        """Start what is missing, from the store upwards."""
        layout = self.layout
        if instance.dead_or_outdated(programs, components.CORE) or not self._core_ready(instance, report):
            instance.stop_all()
            instance.start_core(programs, report)
        refused = health.credential(layout)
        if refused:
            raise LocalError(f"{refused}; create new ones: gpupool local down, then gpupool local up")
        instance.remove_strays()
        instance.start(components.AFTER_CORE, programs, report)
        api = self.api()
        crds.serve(api, definitions)
        for body in yaml.safe_load_all(_ANCHOR.read_text(encoding="utf-8")):
            api.apply(body, crds.MANAGER, force=True)
        instance.keep_only((*components.NAMES, *components.requested()), report)
        instance.start((*components.AFTER_CRDS, *components.requested()), programs, report)
        instance.wait("kube-controller-manager", lambda: _has_default_account(api))
        karpenter = f"http://127.0.0.1:{instance.require_ports().karpenter_health}/healthz"
        instance.wait("karpenter", lambda: health.answers(karpenter))
        for name in (*components.MODULES, *components.requested()):
            instance.wait(name, components.ready_file(layout, name).exists)
        api.close()
        instance.check_alive()

    def _core_ready(self, instance: Instance, report: Report) -> bool:
        """Whether store and API server, which run, answer; a kubeconfig that was changed is written again."""
        if health.store(self.layout) or not credentials.certificate_written(self.layout):
            return False
        for path in instance.write_kubeconfigs():
            report(f"{path} was missing or did not match the API server; wrote it again")
        return health.api_server(self.layout) is None


def _has_default_account(api: KubeApi) -> bool:
    """Without this account no pod can be made; the controller manager makes it."""
    return api.get("v1", "ServiceAccount", "default", "default") is not None
