"""The real `gpupool` command, as a test runs it: one environment file, one control plane."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan
from gpupool.local.control_plane import ControlPlane

SHIPPED = Path(__file__).parents[3] / "environments" / "local.yaml"
Object = dict[str, Any]


@dataclass
class CommandLine:
    """The `gpupool` command against one control plane, on one environment file."""

    file: Path
    plane: ControlPlane

    def write(self, data: Object) -> None:
        self.file.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")

    def read(self) -> Object:
        data: Object = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        return data

    def change(self, edit: Callable[[Object], None]) -> None:
        data = self.read()
        edit(data)
        self.write(data)

    @property
    def plan(self) -> Plan:
        return read_plan(str(self.file))

    def run(self, verb: str, *options: str, code: int = 0) -> str:
        """Run `gpupool VERB FILE OPTIONS`, expect the exit code, and return stdout."""
        done = subprocess.run(
            [sys.executable, "-m", "gpupool.cli.main", verb, str(self.file), *options],
            env={**os.environ, "GPUPOOL_LOCAL_DIR": str(self.plane.layout.data)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, (
            f"gpupool {verb} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done.stdout

    def json(self, verb: str, *options: str) -> Any:
        return json.loads(self.run(verb, *options, "--format", "json"))

    def up(self, *options: str) -> Any:
        return self.json("up", "--yes", *options)

    def touched(self, result: Any) -> set[tuple[str, str]]:
        """(kind, name) of every object that a preview or up changes, content hashes cut off."""
        return {(row["kind"], _unhashed(row["name"])) for row in result["objects"] if row["op"] != "same"}


def _unhashed(name: str) -> str:
    for prefix in ("gpupool-device-plugin", "gpupool-mig"):
        if name.startswith(prefix):
            return prefix
    return name
