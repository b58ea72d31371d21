"""From Pulumi to another engine and back: who delivers owns everything, and what the file loses goes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.delivery.conftest import ENVIRONMENT, Trial
from tests.cluster.delivery.test_convergence import by_argocd, by_flux, by_pulumi

_QUOTA = ("v1", "ResourceQuota", "gpupool", "trial-vision")
_CLEAN = "the cluster matches the file"


def _entries(cluster: Any) -> set[str]:
    return set(cluster.get(*_QUOTA)["spec"]["hard"])


@pytest.mark.parametrize(("engine", "apply"), [("argocd", by_argocd), ("flux", by_flux)])
def test_there_and_back(
    trial: Trial, cluster: Any, monkeypatch: pytest.MonkeyPatch, engine: str, apply: Any
) -> None:
    by_pulumi(trial, cluster)
    before = _entries(cluster)
    trial.deliver_by(engine)
    assert "delivery.engine in the file" in trial.gpupool("handover", "--to", "pulumi", code=1)
    apply(trial, cluster)
    assert "gpupool up (gpupool) also sets fields" in trial.gpupool("assert")
    shown = trial.gpupool("handover", "--to", engine, "--dry-run")
    assert "would go to" in shown
    assert "gpupool up (gpupool) also sets fields" in trial.gpupool("assert"), "nothing has changed yet"
    assert "no value has changed" in trial.gpupool("handover", "--to", engine)
    printed = trial.gpupool("assert")
    assert _CLEAN in printed
    assert "sets fields" not in printed
    assert "no other engine owns fields" in trial.gpupool("handover", "--to", engine)

    # A pool that the file loses takes the quota of its slices along, which Pulumi owned before.
    with monkeypatch.context() as patched:
        patched.setitem(ENVIRONMENT, "pools", ENVIRONMENT["pools"][:1])
        apply(trial, cluster)
    assert _entries(cluster) < before

    trial.deliver_by("pulumi")
    assert "gpupool refresh trial && gpupool up trial" in trial.gpupool("handover", "--to", "pulumi")
    trial.gpupool("refresh")
    trial.gpupool("up", "--yes")
    assert _entries(cluster) == before
    printed = trial.gpupool("assert")
    assert _CLEAN in printed
    assert "sets fields" not in printed
