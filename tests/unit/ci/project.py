"""A small project in Git: two environments, one promoted to the other, rendered into the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
GPUPOOL = BIN / "gpupool"
BODY = """\
apiVersion: gpupool.dev/v1alpha1
kind: Environment
metadata: {{name: {name}}}
cluster: {{platform: local, name: {name}}}
pools:
  - name: notebooks
    gpu: t4
    sharing: {{mode: time-slicing, replicas: {replicas}}}
    nodes: {{instanceTypes: [g4dn.xlarge], max: 2}}
{rest}"""
NOWHERE = """\
apiVersion: v1
kind: Config
clusters: [{name: nowhere, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: somebody, user: {token: none}}]
contexts: [{name: nowhere, context: {cluster: nowhere, user: somebody}}]
current-context: nowhere
"""
"""A kubeconfig of a cluster that does not answer."""
_NOBODY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    **{f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def needs(*programs: str) -> None:
    """Skip where a machine lacks what runners of the forges have."""
    missing = [name for name in programs if not shutil.which(name)]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} on the PATH; Debian: apt-get install {' '.join(missing)}")


class Project:
    """What is in a CI job's working directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self) -> None:
        """Make it, with a first commit on main."""
        (self.folder / "environments").mkdir(parents=True)
        for name in ("dev", "prod"):
            self.write(name, 8)
        self.render("dev")
        # Of what is installed where the tests run, so that nothing is fetched; test_install.py is without it.
        held = f"pyyaml=={metadata.version('pyyaml')} --hash=sha256:{'0' * 64}\n"
        self.add("requirements-gpupool.txt", held)
        self.git("init", "-q", "-b", "main")
        self.commit("start")

    def write(self, name: str, replicas: int, rest: str = "") -> None:
        rest += "promotion: {from: dev}\n" if name == "prod" else ""
        text = BODY.format(name=name, replicas=replicas, rest=rest)
        (self.folder / "environments" / f"{name}.yaml").write_text(text)

    def write_for_elsewhere(self, name: str) -> None:
        """The environment is of a cluster that the kubeconfig names."""
        text = BODY.format(name=name, replicas=8, rest="karpenter: {nodeRole: nodes}\n")
        text = text.replace("local", "eks, region: eu-west-1")
        self.add(f"environments/{name}.yaml", text)

    def render(self, name: str) -> None:
        command = [GPUPOOL, "render", name, "-o", f"rendered/{name}"]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)

    def remove(self, name: str) -> None:
        """An environment's file is taken away, and what it was rendered to is forgotten."""
        (self.folder / "environments" / f"{name}.yaml").unlink()

    def add(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def git(self, *arguments: str) -> None:
        environment = {**os.environ, **_NOBODY}
        subprocess.run(["git", *arguments], cwd=self.folder, env=environment, check=True, capture_output=True)

    def commit(self, subject: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)

    def shell(
        self, script: str, variables: dict[str, str], shell: tuple[str, ...] = ("bash", "-eo", "pipefail")
    ) -> subprocess.CompletedProcess[str]:
        """Run `script` as a runner does, with no more of this process's environment than it needs."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        offline = {
            "PIP_NO_INDEX": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
        }
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            [*shell, "-c", script],
            cwd=self.folder, env={**kept, **offline, "PATH": path, **variables},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
