"""An environment whose rendering Argo CD delivers from a repository of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpupool.local.ports import free_port
from tests.cluster.delivery import argocd
from tests.cluster.delivery.conftest import Trial
from tests.cluster.delivery.git_server import Repository, served

Object = dict[str, Any]
API = "argoproj.io/v1alpha1"
OWN = "gpupool-trial"
"""The Application of the environment's own objects."""
_REFRESH_SECONDS = 3.0


@dataclass
class Delivered:
    """An environment whose rendering Argo CD reads from a repository."""

    trial: Trial
    cluster: Any
    repository: Repository
    environment: Object
    refreshed: float = field(default=0.0)
    charts: frozenset[str] = frozenset()
    """Applications of charts that the environment has."""

    def push(self, message: str) -> str:
        """Render the environment and push it; the commit's hash."""
        self.trial.write(self.environment)
        self.trial.render()
        return self.repository.push(message)

    def applications(self) -> dict[str, Object]:
        """Every Application by name, after Argo CD was asked to look, as a webhook asks it."""
        bodies = self.cluster.api.list(API, "Application", argocd.NAMESPACE)
        if time.monotonic() - self.refreshed > _REFRESH_SECONDS:
            self.refreshed = time.monotonic()
            refresh = {"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}
            for body in bodies:
                name = body["metadata"]["name"]
                self.cluster.api.patch(API, "Application", name, refresh, argocd.NAMESPACE)
        return {body["metadata"]["name"]: body for body in bodies}

    def state(self) -> Object:
        """Argo CD's last operation on the environment's objects, as far as there is one."""
        own = self.applications().get(OWN, {})
        state: Object = own.get("status", {}).get("operationState", {})
        return state

    def until_delivered(self, commit: str, *, pruned: bool = True) -> None:
        """Wait until every Application is as in the commit; `pruned`: and nothing else is left."""

        def check() -> bool:
            applications = self.applications()
            assert applications.keys() >= {OWN, f"{OWN}-delivery"} | self.charts
            for name, body in applications.items():
                status = body.get("status", {})
                state = status.get("operationState", {})
                about = (name, state.get("message"), status.get("conditions"))
                if name not in self.charts:
                    assert status.get("sync", {}).get("revision") == commit, about
                assert status.get("sync", {}).get("status") == "Synced" or not pruned, about
                assert state.get("phase") == "Succeeded", about
            return True

        started = time.monotonic()
        self.cluster.wait(f"{commit[:7]} is delivered", check, timeout=240)
        print(f"delivered after {time.monotonic() - started:.0f} s")


@contextmanager
def started(
    environment: Object, trial: Trial, cluster: Any, folder: Path, **variables: str
) -> Iterator[Delivered]:
    """Argo CD runs and has been given the environment, by the one command that `render` prints. `variables`
    are more of its processes' environment."""
    repository = Repository(folder)
    with (
        served(repository, free_port()) as address,
        argocd.running(cluster, trial.plane.kubeconfig, folder / "argocd", **variables),
    ):
        more = environment.pop("delivery", {})
        environment["delivery"] = {"engine": "argocd", "repo": address, "path": "rendered/trial", **more}
        delivery = Delivered(trial, cluster, repository, environment)
        trial.write(environment)
        _, _, command = trial.render().strip().rpartition(": kubectl ")
        repository.push("first")
        trial.kubectl(*command.split())
        yield delivery
