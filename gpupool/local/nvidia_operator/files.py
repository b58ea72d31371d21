"""What the controller reads at run time: its operands' manifests and its chart, from the pinned Go module."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from gpupool.local import crds
from gpupool.programs import gobuild
from gpupool.programs.binaries import cache_folder, pinned_version

TOOL, MODULE = "gpu-operator", "github.com/NVIDIA/gpu-operator"
_FOLDERS = ("assets", "manifests", "deployments/gpu-operator")


def folder() -> Path:
    """Where `fetch` leaves them."""
    return cache_folder() / "modules" / f"gpu-operator-{pinned_version(TOOL, MODULE)}"


def chart() -> Path:
    """The chart, with the one that it depends on."""
    return folder() / "deployments" / "gpu-operator"


def fetch(report: Callable[[str], None] = lambda _: None) -> Path:
    """`folder`, filled first if need be: later starts need no Go. Raises LocalError where it can't be had."""
    target = folder()
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with gobuild.locked(target.with_name(f".{target.name}.lock"), "the GPU Operator's chart", report):
        if not target.is_dir():
            report(f"fetching the chart of {target.name}")
            source = crds.module_folder(TOOL, MODULE)
            fresh = target.with_name(f".{target.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            for name in _FOLDERS:
                for file in filter(Path.is_file, (source / name).rglob("*")):
                    copy = fresh / file.relative_to(source)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.write_bytes(file.read_bytes())  # not its mode: the module cache can't be written
            fresh.replace(target)
    return target
