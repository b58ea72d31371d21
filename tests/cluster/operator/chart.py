"""The real chart of the GPU Operator with the values of an environment, and the programs that install it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment.plan.helm_values import merged
from gpupool.environment.plan.model import Plan
from gpupool.environment.spec.environment import OPERATOR_NAMESPACE
from gpupool.generators import gpu_operator
from gpupool.generators.emit import yaml_text
from tests.required_programs import require

Object = dict[str, Any]
RELEASE = "gpu-operator"


OF_THE_PINNED_CHART = {"validator": {"plugin": {"env": [{"name": "WITH_WORKLOAD", "value": "false"}]}}}
"""Without it that chart writes `spec.validator.plugin: null`, which server-side apply refuses, whatever else
is given. Charts of releases have this as a default (v25.3.2), or write an empty list (v25.10.1 and later)."""


def values(plan: Plan) -> Object:
    """What the environment gives the chart, also where another way than a Helm release installs it."""
    return merged(OF_THE_PINNED_CHART, gpu_operator.values(plan))


@dataclass(frozen=True)
class Installer:
    """helm, helm4 and kubectl on one cluster, each built when it is first run."""

    kubeconfig: Path
    chart: Path
    folder: Path
    """Where they may write: settings, cache, values."""
    namespace: str = OPERATOR_NAMESPACE
    """Of the release."""

    def run(self, program: str, *arguments: str) -> str:
        """One command, which must succeed: its output."""
        here = {f"HELM_{name}_HOME": str(self.folder) for name in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [str(require(program)[program]), *arguments],
            env={**os.environ, **here, "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{program} {arguments[0]}: {done.stderr}{done.stdout}"
        return done.stdout

    def helm(self, program: str, verb: str, given: Object, *options: str) -> str:
        """`install`, `upgrade` or `template` of the release with these values."""
        file = self.folder / "values.yaml"
        file.write_text(yaml_text(given), encoding="utf-8")
        where = ("--namespace", self.namespace, "-f", str(file))
        return self.run(program, verb, RELEASE, str(self.chart), *where, *options)

    def rendered(self, given: Object, *options: str) -> list[Object]:
        """The chart's objects, the hooks' left out."""
        text = self.helm("helm", "template", given, "--no-hooks", *options)
        return [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one]

    def kubectl(self, verb: str, things: list[Object], *options: str) -> str:
        """`apply` or `delete` of objects, in the chart's namespace where they name none."""
        file = self.folder / "objects.yaml"
        file.write_text(yaml.safe_dump_all(things), encoding="utf-8")
        return self.run("kubectl", verb, "-f", str(file), "--namespace", self.namespace, *options)
