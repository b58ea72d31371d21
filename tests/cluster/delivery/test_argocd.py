"""Argo CD itself delivers an environment: everything follows a commit without a hand, and nothing hangs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.local.control_plane import ControlPlane
from gpupool.local.ports import free_port
from tests.cluster.delivery import argocd
from tests.cluster.delivery.conftest import ENVIRONMENT, Trial, engine_mark
from tests.cluster.delivery.git_server import Repository, served

pytestmark = engine_mark("argocd")
Object = dict[str, Any]
_API = "argoproj.io/v1alpha1"
_OWN = "gpupool-trial"
_REFRESH_SECONDS = 3.0


@dataclass
class Delivered:
    """An environment whose rendering Argo CD reads from a repository."""

    trial: Trial
    cluster: Any
    repository: Repository
    environment: Object
    refreshed: float = field(default=0.0)

    def push(self, message: str) -> str:
        """Render the environment and push it; the commit's hash."""
        self.trial.write(self.environment)
        self.trial.render()
        return self.repository.push(message)

    def applications(self) -> dict[str, Object]:
        """Every Application by name, after Argo CD was asked to look, as a webhook asks it."""
        bodies = self.cluster.api.list(_API, "Application", argocd.NAMESPACE)
        if time.monotonic() - self.refreshed > _REFRESH_SECONDS:
            self.refreshed = time.monotonic()
            refresh = {"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}
            for body in bodies:
                name = body["metadata"]["name"]
                self.cluster.api.patch(_API, "Application", name, refresh, argocd.NAMESPACE)
        return {body["metadata"]["name"]: body for body in bodies}

    def until_delivered(self, commit: str, *, pruned: bool = True) -> None:
        """Wait until every Application is as in the commit; `pruned`: and nothing else is left."""

        def check() -> bool:
            applications = self.applications()
            assert set(applications) == {_OWN, f"{_OWN}-delivery", f"{_OWN}-priorities"}
            for name, body in applications.items():
                status = body.get("status", {})
                state = status.get("operationState", {})
                about = (name, state.get("message"), status.get("conditions"))
                assert status.get("sync", {}).get("revision") == commit, about
                assert status["sync"]["status"] == "Synced" or not pruned, about
                assert state.get("phase") == "Succeeded", about
            return True

        started = time.monotonic()
        self.cluster.wait(f"{commit[:7]} is delivered", check, timeout=600)
        print(f"delivered after {time.monotonic() - started:.0f} s")


@pytest.fixture
def delivered(
    trial: Trial, gitops_kinds: Any, control_plane: ControlPlane, tmp_path: Path
) -> Iterator[Delivered]:
    """The environment is delivered, started by the one command that `render` prints."""
    repository = Repository(tmp_path)
    with (
        served(repository, free_port()) as address,
        argocd.running(gitops_kinds, control_plane.kubeconfig, tmp_path / "argocd"),
    ):
        environment = deepcopy(ENVIRONMENT)
        environment["delivery"] = {"engine": "argocd", "repo": address, "path": "rendered/trial"}
        delivery = Delivered(trial, gitops_kinds, repository, environment)
        trial.write(environment)
        _, _, command = trial.render().strip().rpartition(": kubectl ")
        commit = repository.push("first")
        trial.kubectl(*command.split())
        delivery.until_delivered(commit)
        yield delivery


def test_everything_follows_the_repository(delivered: Delivered) -> None:
    trial, cluster = delivered.trial, delivered.cluster
    assert "the cluster is what the file says" in trial.gpupool("assert")

    # A namespace that the project did not permit when the commit came.
    audio = {"name": "audio", "namespace": "trial-audio", "pools": {"notebooks": {"slices": 1}}}
    delivered.environment["tenants"].append(audio)
    delivered.environment["pools"][0]["sharing"]["replicas"] = 6
    delivered.until_delivered(delivered.push("a tenant, and more replicas"))
    assert "the cluster is what the file says" in trial.gpupool("assert")

    # An edit by hand.
    cluster.api.patch(
        "v1", "ResourceQuota", "gpupool", {"metadata": {"labels": {"gpupool.dev/tenant": "x"}}}, "trial-audio"
    )

    def healed() -> bool:
        quota = cluster.get("v1", "ResourceQuota", "gpupool", "trial-audio")
        return bool(delivered.applications() and quota["metadata"]["labels"]["gpupool.dev/tenant"] == "audio")

    cluster.wait("the edit is undone", healed)


def test_a_commit_that_fails_is_reverted_by_the_way_that_is_documented(delivered: Delivered) -> None:
    """A new object: of one that is there the comparison itself fails, and no sync begins."""
    folder = delivered.trial.rendering / "cluster"
    body = yaml.safe_load((folder / "nodepool-models.yaml").read_text(encoding="utf-8"))
    body["metadata"]["name"], body["spec"]["weight"] = "wrong", 1000
    (folder / "nodepool-wrong.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    delivered.repository.push("a weight that the server refuses")

    def refused() -> bool:
        state = delivered.applications()[_OWN].get("status", {}).get("operationState", {})
        assert "spec.weight" in state.get("message", ""), state.get("message")
        return bool(state.get("phase") == "Running" and state.get("retryCount"))

    delivered.cluster.wait("the commit is refused and tried again", refused)
    commit = delivered.repository.revert()
    page = Path(__file__).parents[3] / "docs" / "delivery.md"
    (command,) = (
        row
        for row in page.read_text(encoding="utf-8").split("`")
        if row.startswith("kubectl -n argocd patch")
    )
    words = command.replace("gpupool-prod", _OWN).removeprefix("kubectl ").partition(" -p ")
    delivered.trial.kubectl(*words[0].split(), "-p", words[2].strip("'"))

    def reverted() -> bool:
        sync = delivered.applications()[_OWN]["status"]["sync"]
        return (sync["revision"], sync["status"]) == (commit, "Synced")

    delivered.cluster.wait("the revert is what is delivered", reverted)
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
    (command,) = (row.strip() for row in printed.splitlines() if row.strip().startswith("$ "))
    trial.kubectl(*command.removeprefix("$ kubectl ").split())
    assert "the cluster is what the file says" in trial.gpupool("assert")
