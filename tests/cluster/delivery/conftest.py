"""One environment that Pulumi, Argo CD or Flux may deliver, on a cluster with nothing else in it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.generators.manifest import Bundle
from gpupool.local.control_plane import ControlPlane
from tests.environment_files import environment_data, write_environment
from tests.required_programs import require

Object = dict[str, Any]


ENVIRONMENT: Object = environment_data(
    "local",
    pools=[
        {
            "name": "notebooks",
            "gpu": "t4",
            "sharing": {"mode": "time-slicing", "replicas": 4},
            "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 2, "warm": 1},
        },
        {
            "name": "models",
            "gpu": "a100-80gb",
            "sharing": {"mode": "mig", "layout": {"3g.40gb": 1, "2g.20gb": 2}},
            "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 1},
        },
    ],
    priorities=[
        {"name": "trial-serving", "value": 900, "level": "high"},
        {"name": "trial-training", "value": 500, "level": "low"},
    ],
    tenants=[
        {
            "name": "vision",
            "namespace": "trial-vision",
            "pools": {"notebooks": {"gpus": 1}},
            "access": {"oidcGroups": ["vision"]},
        }
    ],
)


@dataclass
class Trial:
    """The environment in a folder of its own, and the programs that deliver it."""

    folder: Path
    plane: ControlPlane

    def deliver_by(self, engine: str) -> Path:
        """The environment's file, delivered by `engine` from now on."""
        data = deepcopy(ENVIRONMENT)
        where = {"repo": "https://git.example.com/trial.git", "path": "rendered/trial"}
        data["delivery"] = {"engine": engine} | ({} if engine == "pulumi" else where)
        return self.write(data)

    def write(self, data: Object) -> Path:
        """The environment's file, with these data from now on."""
        return write_environment(self.folder, data)

    @property
    def bundle(self) -> Bundle:
        return generate(read_plan(str(self.folder / "trial.yaml")))

    def rendered(self) -> Path:
        """A checkout of the repository that `render` has written to; Flux's paths start from it."""
        self.render()
        return self.folder / "checkout"

    def render(self) -> str:
        """Render to `rendering`; what is printed."""
        return self.gpupool("render", "-o", str(self.rendering))

    @property
    def rendering(self) -> Path:
        """The environment's folder in the checkout."""
        return self.folder / "checkout" / "rendered" / "trial"

    def leave_marks(self, path: str) -> None:
        """A rendered file is as Git leaves it where a merge was not resolved."""
        file = self.rendering / path
        text = file.read_text(encoding="utf-8")
        file.write_text(f"<<<<<<< ours\n{text}=======\n{text}>>>>>>> theirs\n", encoding="utf-8")

    def gpupool(self, verb: str, *options: str, code: int = 0) -> str:
        """Run `gpupool VERB FILE OPTIONS`; what it prints, errors included."""
        # A folder of its own: the stack's state goes with the test, not with the control plane.
        local = self.folder / "local"
        if not local.exists():
            local.mkdir()
            shutil.copy(self.plane.kubeconfig, local / "kubeconfig")
        variables = {**os.environ, "GPUPOOL_LOCAL_DIR": str(local)}
        # Which environments of other platforms name.
        variables["KUBECONFIG"] = str(self.plane.kubeconfig)
        command = [sys.executable, "-m", "gpupool.cli.main", verb, str(self.folder / "trial.yaml"), *options]
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=300, check=False
        )
        printed = done.stdout + done.stderr
        assert done.returncode == code, printed
        return printed

    def commands(self, printed: str) -> list[str]:
        """The repairs that `assert` prints."""
        return [
            row.strip().removeprefix("$ ") for row in printed.splitlines() if row.strip().startswith("$ ")
        ]

    def carry_out(self, command: str) -> str:
        """Run a command of kubectl as it was printed."""
        return self.kubectl(*shlex.split(command.removeprefix("kubectl ")))

    def shell(self) -> dict[str, str]:
        """Variables of a shell in which a printed command finds kubectl and the cluster."""
        path = f"{require('kubectl')['kubectl'].parent}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "KUBECONFIG": str(self.plane.kubeconfig)}

    def kubectl(self, *options: str, text: str = "") -> str:
        """Run kubectl against the cluster; what it prints to stdout."""
        program = require("kubectl")["kubectl"]
        done = subprocess.run(
            [str(program), "--kubeconfig", str(self.plane.kubeconfig), *options],
            input=text,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def trial(cluster: Any, control_plane: ControlPlane, tmp_path: Path) -> Iterator[Trial]:
    yield Trial(tmp_path, control_plane)
    shutil.rmtree(tmp_path / "checkout", ignore_errors=True)


@pytest.fixture
def gitops_kinds(cluster: Any) -> Iterator[Any]:
    """The cluster with the kinds of Argo CD and Flux, and the namespaces that those live in."""
    with cluster.kinds(Path(__file__).with_name("crds.yaml")):
        for name in ("argocd", "flux-system"):
            cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield cluster
