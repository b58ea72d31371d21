"""The programs and CRDs that a test needs: a clear skip where a laptop lacks them, a failure in CI."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest

from gpupool.local import crds
from gpupool.local.components import PROGRAMS
from gpupool.programs import binaries
from gpupool.programs.failures import LocalError


def require(*names: str) -> dict[str, Path]:
    """The paths of the programs (default: those of the control plane), built first where Go can."""
    wanted = names or PROGRAMS
    missing = [name for name in wanted if binaries.find(name) is None]
    if missing and not shutil.which("go"):
        absent(f"no {', '.join(missing)} and no Go to build them; see `gpupool local up`")
    return binaries.locate_all(wanted, lambda step: print(step, flush=True))


def require_definitions(listing: Path = crds.LISTING) -> list[dict[str, Any]]:
    """The CRDs of a listing (default: the control plane's), from the cache, or fetched first where Go can."""
    try:
        return crds.definitions(listing=listing)
    except LocalError as error:
        return absent(f"no CRDs: {error}")


def require_module(tool: str, module: str) -> Path:
    """The source of the Go module that `tools/<tool>` pins."""
    try:
        return crds.module_folder(tool, module)
    except (LocalError, OSError) as error:
        return absent(f"no source of {module}: {error}")


def absent(message: str) -> NoReturn:
    """What a test needs is not here, and the message says how to get it: fail in CI, skip elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
