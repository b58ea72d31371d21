"""Run a small Go program with the packages that Kubernetes is built of, where they are on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

KUBERNETES = Path(__file__).parents[1] / "tools" / "kubernetes"
"""The module that control planes are built from."""


def run(program: Path, given: Any, module: Path = KUBERNETES) -> Any:
    """What `program` prints as JSON, with the JSON of `given` on stdin. Downloads nothing: skips the test
    where Go or a package of `module` is missing."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    offline = {**os.environ, "GOFLAGS": "-mod=readonly", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    made = subprocess.run(
        [go, "run", str(program)],
        cwd=module,
        env=offline,
        input=json.dumps(given),
        capture_output=True,
        text=True,
    )
    if "GOPROXY=off" in made.stderr or "toolchain" in made.stderr or "requires go" in made.stderr:
        pytest.skip(f"the packages of tools/{module.name} are not on this machine")
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)
