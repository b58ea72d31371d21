"""Flux's own controller delivers an environment."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.delivery import flux
from tests.cluster.delivery.conftest import ENVIRONMENT, Trial
from tests.cluster.delivery.git_server import Repository

_API = "kustomize.toolkit.fluxcd.io/v1"


def delivered(cluster: Any, commit: str) -> float:
    """Wait until every Kustomization is ready at the commit; how long it took, in seconds."""
    started = time.monotonic()

    def check() -> bool:
        bodies = cluster.api.list(_API, "Kustomization", flux.NAMESPACE)
        assert bodies
        for body in bodies:
            status = body.get("status", {})
            ready = next((c for c in status.get("conditions", []) if c["type"] == "Ready"), {})
            name = body["metadata"]["name"]
            assert commit in status.get("lastAppliedRevision", ""), (name, ready.get("message"))
            assert ready.get("status") == "True", (name, ready.get("message"))
        return True

    cluster.wait(f"{commit[:7]} is delivered", check, timeout=600)
    return time.monotonic() - started


@pytest.mark.parametrize("options", [(), ("--requeue-dependency=5s",)], ids=["default", "requeue"])
def test_it(
    trial: Trial, gitops_kinds: Any, control_plane: Any, tmp_path: Path, options: tuple[str, ...]
) -> None:
    cluster = gitops_kinds
    repository = Repository(tmp_path)
    environment = yaml.safe_load(yaml.safe_dump(ENVIRONMENT))
    environment["delivery"] = {
        "engine": "flux",
        "repo": "https://git.example.com/trial.git",
        "path": "rendered/trial",
    }
    folder = tmp_path / "flux"
    folder.mkdir()
    source = flux.Source(cluster, folder)

    def push(message: str) -> str:
        file = trial.folder / "trial.yaml"
        file.write_text(yaml.safe_dump(environment, sort_keys=False), encoding="utf-8")
        print(trial.gpupool("render", "-o", str(repository.work / "rendered" / "trial")))
        return repository.push(message)

    with source.served(), flux.running(control_plane.kubeconfig, folder, *options):
        commit = push("first")
        trial.kubectl("apply", "-k", str(repository.work / "rendered" / "trial" / "delivery" / "flux"))
        source.fetched("gpupool-trial", repository.work, commit)
        print("first", delivered(cluster, commit))
        print(trial.gpupool("assert"))
        environment["pools"][0]["sharing"]["replicas"] = 6
        environment["tenants"].append(
            {"name": "audio", "namespace": "trial-audio", "pools": {"notebooks": {"slices": 1}}}
        )
        commit = push("replicas")
        source.fetched("gpupool-trial", repository.work, commit)
        print("replicas and a tenant", delivered(cluster, commit))
        print(trial.gpupool("assert"))
        environment["pools"].pop(1)
        commit = push("pool removed")
        source.fetched("gpupool-trial", repository.work, commit)
        print("pool removed", delivered(cluster, commit))
        print(trial.gpupool("assert"))
