"""What the chart gives the controller: the rights of its account, and the images of its operands."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from gpupool.local.operator.names import NAMESPACE
from gpupool.programs.failures import LocalError

Object = dict[str, Any]
RELEASE = "gpu-operator"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:gpu-operator"
"""As whom the controller acts. Its rights do not depend on whether this ServiceAccount exists."""
_RIGHTS = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
_IMAGES = Path(__file__).with_name("images.yaml")


def objects(helm: Path, chart: Path, folder: Path) -> list[Object]:
    """Every object of the chart with its own values, in the order of Helm. Raises LocalError.

    `folder`: where Helm may write.
    """
    own = {f"HELM_{name}_HOME": str(folder) for name in ("CACHE", "CONFIG", "DATA")}
    command = [str(helm), "template", RELEASE, str(chart), "--namespace", NAMESPACE, "--no-hooks"]
    done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LocalError(f"{chart}: helm template failed: {done.stderr.strip()}")
    return [body for body in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if body]


def rights(rendered: list[Object]) -> list[Object]:
    """The objects that give the controller's account its rights."""
    own = [body for body in rendered if body["kind"] in _RIGHTS and body["metadata"]["name"] == RELEASE]
    for body in own:
        if not body["kind"].startswith("Cluster"):
            body["metadata"]["namespace"] = NAMESPACE
    return own


def images(rendered: list[Object]) -> dict[str, str]:
    """Variables that name the image of each operand, as where no chart writes the ClusterPolicy (OLM)."""
    (policy,) = (body for body in rendered if body["kind"] == "ClusterPolicy")
    variables = {}
    for place, variable in yaml.safe_load(_IMAGES.read_text(encoding="utf-8")).items():
        part: Mapping[str, Any] = reduce(lambda inner, key: inner[key], place.split("."), policy["spec"])
        variables[variable] = f"{part['repository']}/{part['image']}:{part['version']}"
    return variables
