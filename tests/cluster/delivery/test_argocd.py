"""Argo CD itself delivers an environment: everything follows a commit without a hand, and nothing hangs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.delivery.argocd_delivery import OWN, Delivered, started
from tests.cluster.delivery.conftest import ENVIRONMENT, Trial

_CLEAN = "the cluster matches the file"


@pytest.fixture
def delivered(trial: Trial, gitops_kinds: Any, tmp_path: Path) -> Iterator[Delivered]:
    with started(deepcopy(ENVIRONMENT), trial, gitops_kinds, tmp_path) as delivery:
        delivery.until_delivered(delivery.repository.head())
        yield delivery


def test_everything_follows_the_repository(delivered: Delivered) -> None:
    trial, cluster = delivered.trial, delivered.cluster
    assert _CLEAN in trial.gpupool("assert")

    # A namespace that the project did not permit when the commit came.
    audio = {"name": "audio", "namespace": "trial-audio", "pools": {"notebooks": {"slices": 1}}}
    delivered.environment["tenants"].append(audio)
    delivered.environment["pools"][0]["sharing"]["replicas"] = 6
    delivered.until_delivered(delivered.push("a tenant, and more replicas"))
    delivered.environment["pools"][1]["sharing"]["layout"] = {"1g.10gb": 7}
    delivered.until_delivered(delivered.push("another layout"))
    assert _CLEAN in trial.gpupool("assert")

    # An edit by hand.
    cluster.api.patch(
        "v1", "ResourceQuota", "gpupool", {"metadata": {"labels": {"gpupool.dev/tenant": "x"}}}, "trial-audio"
    )

    def healed() -> bool:
        quota = cluster.get("v1", "ResourceQuota", "gpupool", "trial-audio")
        return bool(delivered.applications() and quota["metadata"]["labels"]["gpupool.dev/tenant"] == "audio")

    cluster.wait("the edit is undone", healed)


def test_a_commit_that_can_not_be_read_changes_nothing_and_is_named(delivered: Delivered) -> None:
    trial = delivered.trial
    trial.leave_marks("cluster/nodepool-models.yaml")
    delivered.repository.push("a merge left its marks")

    def named() -> bool:
        delivered.applications()
        return "delivery-failing" in trial.gpupool("assert", code=1)

    delivered.cluster.wait("the commit is refused", named)
    printed = trial.gpupool("assert", code=1)
    assert "Application gpupool-trial\n" in printed
    assert "1 difference" in printed, "nothing else has changed"
    delivered.until_delivered(delivered.repository.revert())
    assert _CLEAN in trial.gpupool("assert")


def test_a_commit_that_fails_is_reverted_by_what_assert_prints(delivered: Delivered) -> None:
    """A new object: of one that is there the comparison itself fails, and no sync begins."""
    folder = delivered.trial.rendering / "cluster"
    body = yaml.safe_load((folder / "nodepool-models.yaml").read_text(encoding="utf-8"))
    body["metadata"]["name"], body["spec"]["weight"] = "wrong", 1000
    (folder / "nodepool-wrong.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    delivered.repository.push("a weight that the server refuses")

    def refused() -> bool:
        state = delivered.state()
        assert "spec.weight" in state.get("message", ""), state.get("message")
        return bool(state.get("phase") == "Running" and state.get("retryCount"))

    delivered.cluster.wait("the commit is refused and tried again", refused)
    commit = delivered.repository.revert()
    (command,) = delivered.trial.commands(delivered.trial.gpupool("assert"))
    page = Path(__file__).parents[3] / "docs" / "delivery.md"
    assert command.replace(OWN, "gpupool-prod") in page.read_text(encoding="utf-8")
    delivered.trial.carry_out(command)
    pushed = time.monotonic()

    def reverted() -> bool:
        sync = delivered.applications()[OWN]["status"]["sync"]
        return (sync["revision"], sync["status"]) == (commit, "Synced")

    delivered.cluster.wait("the revert is what is delivered", reverted)
    print(f"reverted after {time.monotonic() - pushed:.0f} s")
    delivered.environment["pools"][0]["nodes"]["max"] = 3
    delivered.until_delivered(delivered.push("what comes next"))


def test_a_pool_that_waits_for_its_deletion_holds_up_nothing(delivered: Delivered) -> None:
    trial, cluster = delivered.trial, delivered.cluster
    del delivered.environment["pools"][1]
    delivered.until_delivered(delivered.push("a pool less"), pruned=False)
    printed = trial.gpupool("assert", code=1)
    assert "NodePool models" in printed
    delivered.environment["pools"][0]["nodes"]["max"] = 3
    delivered.until_delivered(delivered.push("another change"), pruned=False)
    assert cluster.get("karpenter.sh/v1", "NodePool", "notebooks")["spec"]["limits"]["nodes"] == "3"
    (command,) = trial.commands(printed)
    trial.carry_out(command)
    assert _CLEAN in trial.gpupool("assert")
