"""Every part of the suite that compares the engine with an API server asks the one that it is pointed at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.policies.conftest import ANOTHER_CLUSTER

HERE = Path(__file__).parent
PARTS = ("cel_differential", "policy_forms", "semantics", "shipped_policies", "type_check")


@pytest.mark.parametrize("part", PARTS)
def test_it_is_asked(part: str, tmp_path: Path) -> None:
    nowhere = tmp_path / "kubeconfig"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", HERE / f"test_{part}.py"],
        cwd=HERE.parents[2],
        env={**os.environ, ANOTHER_CLUSTER: str(nowhere), "GPUPOOL_TESTS": "all"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert f"{ANOTHER_CLUSTER}={nowhere}: no such file; name a kubeconfig" in done.stdout, done.stdout[-2000:]
