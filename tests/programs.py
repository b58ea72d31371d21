"""The programs that a test needs: a clear skip where a laptop lacks them, a failure in CI."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from infra.local import binaries
from infra.local.components import PROGRAMS


def require(*names: str) -> dict[str, Path]:
    """The paths of the programs (default: those of the control plane), built first where Go can."""
    wanted = names or PROGRAMS
    missing = [name for name in wanted if binaries.find(name) is None]
    if missing and not shutil.which("go"):
        message = f"no {', '.join(missing)} and no Go to build them; see `gpupool local up`"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return binaries.locate_all(wanted, lambda step: print(step, flush=True))
