"""The real helm with the chart of this checkout, and values as the generator makes them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment import shipped
from gpupool.environment.plan.helm_values import merged
from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.generators import generate
from gpupool.generators.emit import yaml_text

CHART = shipped.folder("charts") / "gpu-scheduler"
ENVIRONMENT = Path(__file__).parents[2] / "golden" / "chart" / "charted.yaml"
RELEASE = "gpu-scheduler"
MONITOR = {"serviceMonitor": {"apiKey": {"name": "queue-metrics", "key": "key"}, "labels": {"team": "ml"}}}
"""Values with which Prometheus' operator scrapes the queue."""


def generated(environment: Path = ENVIRONMENT) -> dict[str, Any]:
    """The release's values."""
    plan = resolve(check_shape(parse_source(environment.name, environment.read_bytes())))
    (found,) = (one for one in generate(plan).releases if one.name == RELEASE)
    return dict(found.values)


@dataclass(frozen=True)
class Helm:
    program: Path
    folder: Path
    """Where it may write: settings, cache, values."""
    kubeconfig: Path | None = None
    environment: Path = ENVIRONMENT

    def run(self, *arguments: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        """One command in the release's namespace; `values` are merged over the generated ones."""
        file = self.folder / "values.yaml"
        file.write_text(yaml_text(merged(generated(self.environment), values or {})))
        given = ["-f", str(file)] if arguments[0] in ("lint", "template", "install", "upgrade") else []
        here = {f"HELM_{name}_HOME": str(self.folder) for name in ("CACHE", "CONFIG", "DATA")}
        if self.kubeconfig:
            here["KUBECONFIG"] = str(self.kubeconfig)
        return subprocess.run(
            [str(self.program), *arguments, "--namespace", SYSTEM_NAMESPACE, *given],
            env={**os.environ, **here},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def done(self, *arguments: str, values: dict[str, Any] | None = None) -> str:
        """`run`, which must succeed: its output."""
        found = self.run(*arguments, values=values)
        assert found.returncode == 0, found.stderr + found.stdout
        return found.stdout

    def template(self, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """The objects, the hook's among them."""
        text = self.done("template", RELEASE, str(CHART), values=values)
        return [body for body in yaml.safe_load_all(text) if body]
