"""Prometheus and the exporter's pages in the background, beside the local control plane and the queue.

Two processes that outlive the command, with their state in one folder. Prometheus is the machine's own
program (Debian package prometheus); it is not built here.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupool.environment import project, shipped
from gpupool.environment.plan.model import Plan
from gpupool.findings import GpupoolError
from gpupool.generators.emit import yaml_text
from gpupool.generators.monitoring import rules
from gpupool.local import health, processes
from gpupool.local.credentials import write_private
from gpupool.local.ports import free_port
from gpupool.local.processes import RunningProcess

_START_S = 30.0
_GRACE_S = 10.0
_SCRAPE = "5s"
_KEPT = ("PATH", "HOME", "TMPDIR", "LANG")


@dataclass(frozen=True, slots=True)
class LocalPrometheus:
    """The processes whose state is in `folder`."""

    folder: Path

    def start(
        self,
        plan: Plan,
        file: Path,
        kubeconfig: Path,
        queue: str,
        port: int,
        report: Callable[[str], None],
        alertmanager: str | None = None,
    ) -> str:
        """Start both, those of before replaced; the address of Prometheus. `queue`: host and port of the
        job queue; `alertmanager`: of who is sent the alerts. Raises GpupoolError with the end of a log where
        one does not become ready."""
        program = shutil.which("prometheus")
        if program is None:
            raise GpupoolError("prometheus is not on PATH; on Debian: apt-get install prometheus")
        self.stop()
        project.make_private(self.folder)
        pages = free_port()
        groups = [{**group, "interval": _SCRAPE} for group in rules.groups(plan)]  # for who looks on
        write_private(self.folder / "rules.yaml", yaml_text({"groups": groups}))
        config = self.folder / "prometheus.yaml"
        write_private(config, yaml_text(_config(pages, queue, alertmanager)))
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        report("exporter")
        argv = shipped.command(
            "gpupool.local.monitoring",
            *("--kubeconfig", str(kubeconfig), "--environment", str(file), "--port", str(pages)),
        )
        running = {"exporter": self._spawn(argv, environment | shipped.variables(), "exporter")}
        report("prometheus")
        address = f"127.0.0.1:{port}"
        flags = (
            f"--config.file={config}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            "--storage.tsdb.retention.time=2d",
            f"--web.listen-address={address}",
        )
        running["prometheus"] = self._spawn((program, *flags), environment, "prometheus")
        state = {name: process.as_dict() for name, process in running.items()}
        write_private(self._state, json.dumps(state))
        self._wait("exporter", running["exporter"], f"http://127.0.0.1:{pages}/targets")
        self._wait("prometheus", running["prometheus"], f"http://{address}/-/ready")
        return f"http://{address}"

    def stop(self) -> bool:
        """End both; False where none ran."""
        alive = [process for process in self._running().values() if processes.alive(process)]
        processes.stop([process.pid for process in alive], _GRACE_S)
        self._state.unlink(missing_ok=True)
        return bool(alive)

    def purge(self) -> None:
        """Remove the data of those that do not run."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _state(self) -> Path:
        return self.folder / "monitoring.json"

    def _spawn(
        self, argv: tuple[str, ...] | list[str], environment: dict[str, str], name: str
    ) -> RunningProcess:
        return processes.spawn(tuple(argv), environment, self.folder, self.folder / f"{name}.log", "")

    def _wait(self, name: str, process: RunningProcess, address: str) -> None:
        deadline = time.monotonic() + _START_S
        while not health.answers(address):
            if not processes.alive(process) or time.monotonic() > deadline:
                log = self.folder / f"{name}.log"
                end = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
                self.stop()
                raise GpupoolError(f"{name} did not become ready; the end of {log}:\n{end}")
            time.sleep(0.1)

    def _running(self) -> dict[str, RunningProcess]:
        try:
            state = json.loads(self._state.read_text())
            return {name: RunningProcess.from_dict(values) for name, values in state.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}


def _config(pages: int, queue: str, alertmanager: str | None) -> dict[str, Any]:
    """As the ServiceMonitors of the environment have it."""
    receivers = [{"static_configs": [{"targets": [alertmanager]}]}] if alertmanager else []
    targets = {"url": f"http://127.0.0.1:{pages}/targets", "refresh_interval": _SCRAPE}
    return {
        "global": {"scrape_interval": _SCRAPE, "evaluation_interval": _SCRAPE},
        "rule_files": ["rules.yaml"],
        "alerting": {"alertmanagers": receivers},
        "scrape_configs": [
            {
                "job_name": rules.EXPORTER_JOB,
                "honor_labels": False,
                "http_sd_configs": [targets],
            },
            {"job_name": "gpu-scheduler", "static_configs": [{"targets": [queue]}]},
        ],
    }
