"""The controller as a process: the folder that it takes for `/`, its kubeconfig, and its life."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import yaml

from gpupool.environment import shipped
from gpupool.local.credentials import write_private
from gpupool.local.nvidia_operator import node_features
from gpupool.local.nvidia_operator.chart import ACCOUNT
from gpupool.local.operator.names import NAMESPACE
from gpupool.programs.failures import LocalError

_GROUPS = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
# Neither is of use here, and by default both listen on every address.
_FLAGS = ("--metrics-bind-address=0", "--health-probe-bind-address=0")
_LEAVE_SECONDS = 5.0


def prepare(root: Path, files: Path, kubeconfig: Path) -> None:
    """Fill `root` with what the controller reads, as its image has it. It acts as its chart's account."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(files / "assets", root / "opt" / "gpu-operator")
    shutil.copytree(files / "manifests", root / "opt" / "gpu-operator" / "manifests")
    system = "".join(f'{key}="{value}"\n' for key, value in node_features.SYSTEM.items())
    (root / "host-etc").mkdir()
    (root / "host-etc" / "os-release").write_text(system, encoding="utf-8")
    settings = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    for user in settings["users"]:
        user["user"] |= {"as": ACCOUNT, "as-groups": _GROUPS}
    write_private(root / "kubeconfig", yaml.safe_dump(settings))


async def run(program: Path, root: Path, variables: Mapping[str, str]) -> None:
    """Run the controller until this task is cancelled. Raises LocalError when it ends by itself."""
    environment = {
        **os.environ,
        **shipped.variables(),
        **variables,
        "KUBECONFIG": "/kubeconfig",
        "OPERATOR_NAMESPACE": NAMESPACE,
    }
    command = shipped.command("gpupool.local.nvidia_operator.enter", str(root), str(program), *_FLAGS)
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    try:
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_SECONDS):
                    await process.wait()
        if process.returncode is None:
            process.kill()
    raise LocalError(f"{program} ended with {code}")
