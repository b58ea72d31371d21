"""Pulumi's Kubernetes plugin: installed by the engine where there is none, else built."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gpupool.infra.engine import EngineError, Report
from gpupool.infra.pulumi_plugins import env as pulumi_env
from gpupool.programs import binaries, releases
from gpupool.programs.failures import LocalError

_INSTALL_SECONDS = 300.0
"""How long the engine may take to download a plugin (some 40 MB)."""


def require_plugin(pulumi: Path, report: Report) -> None:
    """Have Pulumi's Kubernetes plugin: installed by the engine where it is not there, else built.

    Raises EngineError where neither works, with both reasons.
    """
    if pulumi_env.kubernetes_plugin() is not None:
        return
    why = _installed(pulumi, report) if releases.wanted() else "GPUPOOL_RELEASES forbids downloads"
    if why is None:
        return
    sys.stderr.write(f"Pulumi's Kubernetes plugin is built instead of downloaded: {why}\n")
    try:
        binaries.locate(pulumi_env.KUBERNETES_PLUGIN, report)
    except LocalError as error:
        raise EngineError(
            f"Pulumi's Kubernetes plugin is not installed, and Pulumi could not install it: {why}. gpupool "
            f"could not build it either: {error}. Install it on a machine with access to downloads "
            f"(pulumi {' '.join(pulumi_env.install_plugin())}) and copy ~/.pulumi/plugins here"
        ) from error


def _installed(pulumi: Path, report: Report) -> str | None:
    """Have the engine install the pinned plugin: why it is not there then; None where it is."""
    words = pulumi_env.install_plugin()
    report(f"installing Pulumi's Kubernetes plugin {words[-1]}")
    why = ""
    try:
        done = subprocess.run(
            [str(pulumi), "--non-interactive", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
        why = done.stderr.strip().rpartition("\n")[2].removeprefix("error: ")
    except subprocess.TimeoutExpired:
        why = f"it was not there after {_INSTALL_SECONDS:.0f} s"
    return None if pulumi_env.kubernetes_plugin() is not None else why
