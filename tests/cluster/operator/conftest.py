"""What the tests of NVIDIA's operator need: its chart and CRDs from the pinned module, and its controller."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.local.components import AUDIT_VARIABLE, OPERATOR_VARIABLE
from gpupool.local.control_plane import ControlPlane
from gpupool.local.nvidia_operator import files
from gpupool.programs.failures import LocalError
from tests.required_programs import absent, require

CHART_VARIABLE = "GPUPOOL_OPERATOR_CHART"
"""The folder of the chart of another release (deployments/gpu-operator of a checkout), for test_chart.py."""


@pytest.fixture(scope="session")
def chart() -> Path:
    """The folder of the chart, with its CRDs: the pinned module's, or another release's."""
    if given := os.environ.get(CHART_VARIABLE):
        return Path(given)
    try:
        files.fetch()
    except LocalError as error:
        absent(f"no chart of the GPU Operator: {error}")
    return files.chart()


@pytest.fixture(scope="module")
def operated_plane(chart: Path) -> Iterator[ControlPlane]:
    """A control plane with NVIDIA's controller in it, as `make up OPERATOR=real` starts it."""
    require("gpu-operator", "helm")
    folder = Path(tempfile.mkdtemp(prefix="gpupool-operator-"))
    plane = ControlPlane(folder / "local")
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv(OPERATOR_VARIABLE, "real")
        changed.setenv(AUDIT_VARIABLE, str(Path(__file__).with_name("audit-policy.yaml")))
        try:
            plane.up(lambda step: print(step, flush=True))
            yield plane
        finally:
            plane.down()
            shutil.rmtree(folder, ignore_errors=True)
