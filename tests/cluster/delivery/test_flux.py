"""Flux's own controller delivers an environment, step by step."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpupool.local.control_plane import ControlPlane
from tests.cluster.delivery import flux
from tests.cluster.delivery.conftest import ENVIRONMENT, Trial
from tests.cluster.delivery.git_server import Repository

_API = "kustomize.toolkit.fluxcd.io/v1"
_STEPS = {f"gpupool-trial-{step}" for step in ("foundation", "operators", "machines", "pools")}


@dataclass
class Delivered:
    """An environment whose rendering Flux reads."""

    trial: Trial
    cluster: Any
    repository: Repository
    source: flux.Source
    environment: dict[str, Any]

    def push(self) -> str:
        """Render, push, and let Flux see the commit; its hash."""
        self.trial.write(self.environment)
        self.trial.render()
        commit = self.repository.push("change")
        if self.cluster.api.list(_API, "Kustomization", flux.NAMESPACE):
            self.fetched(commit)
        return commit

    def fetched(self, commit: str) -> None:
        """Flux's source has the commit."""
        self.source.fetched("gpupool-trial", self.repository.work, commit)

    def until_delivered(self, commit: str) -> None:
        """Wait until every Kustomization is ready at the commit."""

        def check() -> bool:
            bodies = self.cluster.api.list(_API, "Kustomization", flux.NAMESPACE)
            assert {body["metadata"]["name"] for body in bodies} == _STEPS
            for body in bodies:
                status = body.get("status", {})
                ready = next((c for c in status.get("conditions", []) if c["type"] == "Ready"), {})
                about = (body["metadata"]["name"], ready.get("message"))
                assert commit in status.get("lastAppliedRevision", ""), about
                assert ready.get("status") == "True", about
            return True

        started = time.monotonic()
        self.cluster.wait(f"{commit[:7]} is delivered", check, timeout=600)
        print(f"delivered after {time.monotonic() - started:.0f} s")

    def stop(self) -> None:
        """Delete Flux's Kustomizations, and wait until Flux has let them go."""

        def names() -> list[str]:
            bodies = self.cluster.api.list(_API, "Kustomization", flux.NAMESPACE)
            return [body["metadata"]["name"] for body in bodies]

        for name in names():
            self.cluster.api.delete(_API, "Kustomization", name, flux.NAMESPACE)
        self.cluster.wait("Flux has let its Kustomizations go", lambda: not names())


@pytest.fixture(params=[(), ("--requeue-dependency=5s",)], ids=["default", "advised"])
def delivered(
    request: pytest.FixtureRequest,
    trial: Trial,
    gitops_kinds: Any,
    control_plane: ControlPlane,
    tmp_path: Path,
) -> Iterator[Delivered]:
    """The environment is delivered, with Flux' settings as they are and as the page advises."""
    repository, folder = Repository(tmp_path), tmp_path / "flux"
    folder.mkdir()
    environment = deepcopy(ENVIRONMENT)
    where = {"repo": "https://git.example.com/trial.git", "path": "rendered/trial"}
    environment["delivery"] = {"engine": "flux", **where}
    source = flux.Source(gitops_kinds, folder)
    with source.served(), flux.running(control_plane.kubeconfig, folder, *request.param):
        delivery = Delivered(trial, gitops_kinds, repository, source, environment)
        commit = delivery.push()
        trial.kubectl("apply", "-k", str(trial.rendering / "delivery" / "flux"))
        source.fetched("gpupool-trial", repository.work, commit)
        delivery.until_delivered(commit)
        yield delivery
        delivery.stop()


def test_commits_are_delivered_and_a_pool_is_kept_until_a_person_deletes_it(delivered: Delivered) -> None:
    trial = delivered.trial
    assert "the cluster matches the file" in trial.gpupool("assert")
    delivered.environment["pools"][0]["sharing"]["replicas"] = 6
    audio = {"name": "audio", "namespace": "trial-audio", "pools": {"notebooks": {"slices": 1}}}
    delivered.environment["tenants"].append(audio)
    delivered.until_delivered(delivered.push())
    assert "the cluster matches the file" in trial.gpupool("assert")
    del delivered.environment["pools"][1]
    delivered.until_delivered(delivered.push())
    printed = trial.gpupool("assert")
    (command,) = trial.commands(printed)
    assert command == "kubectl delete nodepool models"
    trial.carry_out(command)
    assert "models" not in trial.gpupool("assert")
    delivered.stop()
    assert "the cluster matches the file" in trial.gpupool("assert"), "nothing went with them"


@pytest.mark.parametrize("delivered", [("--requeue-dependency=5s",)], indirect=True, ids=["advised"])
def test_what_holds_it_up_is_said_and_a_revert_is_delivered(delivered: Delivered) -> None:
    trial, cluster = delivered.trial, delivered.cluster
    # The warm node that is on its way has a repair of its own, for the case that it never comes.
    cluster.wait("the warm node is there", lambda: not trial.commands(trial.gpupool("assert")))

    # An edit by hand. Flux looks every ten minutes, and at once when it is asked as `assert` prints.
    edit = {"metadata": {"labels": {"gpupool.dev/tenant": "x"}}}
    cluster.api.patch("v1", "ResourceQuota", "gpupool", edit, "trial-vision")
    (command,) = trial.commands(trial.gpupool("assert", code=1))
    subprocess.run(["bash", "-c", command], env=trial.shell(), check=True, capture_output=True)

    def healed() -> bool:
        quota = cluster.get("v1", "ResourceQuota", "gpupool", "trial-vision")
        return bool(quota["metadata"]["labels"]["gpupool.dev/tenant"] == "vision")

    cluster.wait("the edit is undone", healed)

    # A step is suspended, and those behind it wait for it.
    cluster.api.patch(
        _API, "Kustomization", "gpupool-trial-machines", {"spec": {"suspend": True}}, flux.NAMESPACE
    )
    printed = trial.gpupool("assert")
    assert "delivery-suspended  Kustomization gpupool-trial-machines" in printed
    (command,) = trial.commands(printed)
    trial.carry_out(command)
    assert "suspended" not in trial.gpupool("assert")

    # A commit that can't be read, and its revert.
    trial.leave_marks("cluster/nodepool-models.yaml")
    delivered.fetched(delivered.repository.push("a merge left its marks"))

    def named() -> bool:
        return "delivery-failing  Kustomization gpupool-trial-pools" in trial.gpupool("assert", code=1)

    cluster.wait("the commit is refused", named)
    commit = delivered.repository.revert()
    delivered.fetched(commit)
    delivered.until_delivered(commit)
    assert "the cluster matches the file" in trial.gpupool("assert")
