"""A real Prometheus for tests, on a free port of this machine, and questions to any."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpupool.local.ports import free_port
from tests.required_programs import absent

INTERVAL_S = 1.0
"""Also the time that a scrape may take: one that is cut off leaves a gap in all figures."""
_PATIENCE_S = 60.0


def query(url: str, expression: str) -> list[dict[str, Any]]:
    """The series of the expression at this moment."""
    address = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    with urllib.request.urlopen(address, timeout=10) as answer:
        series: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return series


def wait(url: str, expression: str, patience_s: float = _PATIENCE_S) -> list[dict[str, Any]]:
    """The series of the expression, once it has some."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if series := query(url, expression):
            return series
        time.sleep(0.2)
    raise AssertionError(f"{expression} has no value")


class Prometheus:
    """Its data is in the folder, and is gone on from where there is some. `jobs`: what it scrapes, as its
    configuration has it; `groups`: of rules; `before`: samples of a time before (OpenMetrics)."""

    def __init__(
        self,
        folder: Path,
        jobs: Sequence[Mapping[str, Any]] = (),
        groups: Sequence[Mapping[str, Any]] = (),
        before: str = "",
        flags: Sequence[str] = (),
    ) -> None:
        program = shutil.which("prometheus")
        if program is None:
            absent("no prometheus; Debian: apt-get install prometheus")
        self.data, self._log = folder / "data", folder / "prometheus.log"
        if before:
            (folder / "before.txt").write_text(before)
            promtool("tsdb", "create-blocks-from", "openmetrics", folder / "before.txt", self.data)
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": list(groups)}))
        interval = f"{INTERVAL_S * 1000:.0f}ms"
        every = {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval}
        config = {"global": every, "rule_files": ["rules.yaml"], "scrape_configs": list(jobs)}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}"
        places = (f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={self.data}")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program, *places, f"--web.listen-address={address}", *flags], stdout=log, stderr=log
            )
        self._until_ready()

    def _until_ready(self) -> None:
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        self.stop()
        raise AssertionError(self._log.read_text()[-2000:])

    def query(self, expression: str) -> list[dict[str, Any]]:
        return query(self.url, expression)

    def wait(self, expression: str, patience_s: float = _PATIENCE_S) -> list[dict[str, Any]]:
        return wait(self.url, expression, patience_s)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)


def promtool(*arguments: str | Path) -> str:
    """What it prints; fails where it does."""
    program = shutil.which("promtool")
    if program is None:
        absent("no promtool; Debian: apt-get install prometheus")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
