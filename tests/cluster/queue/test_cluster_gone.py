"""A queue whose cluster goes, moves or no longer knows it: said with its time, and over without a restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from gpupool.client import Client
from gpupool.local.control_plane import ControlPlane
from gpupool.local.ports import free_port
from tests.cluster.kube import Kube
from tests.cluster.queue.conftest import ENVIRONMENT
from tests.cluster.queue.served import Queue, apply

Object = dict[str, Any]
SLEEPS = {"container_image": "busybox:1.37", "container_command": ["sleep", "300"]}


class Moved:
    """A queue with a kubeconfig of its own, which is written again as a new control plane would."""

    def __init__(self, queue: Queue, file: Path) -> None:
        self.queue, self.file = queue, file
        self.right = yaml.safe_load(queue.plane.kubeconfig.read_text())

    def write(self, change: Callable[[Object, Object], None] = lambda cluster, user: None) -> None:
        config = yaml.safe_load(yaml.safe_dump(self.right))
        change(config["clusters"][0]["cluster"], config["users"][0]["user"])
        fresh = self.file.with_suffix(".new")
        fresh.write_text(yaml.safe_dump(config))
        fresh.chmod(0o600)
        fresh.rename(self.file)

    def ready(self) -> tuple[int, str]:
        answer = httpx2.get(f"{self.queue.processes[0].address}/readyz")
        return answer.status_code, str(answer.json().get("detail"))


@pytest.fixture(scope="module")
def moved(
    kube: Kube, control_plane: ControlPlane, queue_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Moved]:
    kube.wipe()
    folder = tmp_path_factory.mktemp("moved")
    spec = yaml.safe_load(ENVIRONMENT.read_text(encoding="utf-8"))
    queue = Queue(kube, control_plane, spec, queue_database, folder)
    queue.kubeconfig = folder / "kubeconfig"
    made = Moved(queue, queue.kubeconfig)
    made.write()
    apply(kube, queue.plan)
    try:
        queue.process().until_ready()
        yield made
    finally:
        queue.stop()
        kube.wipe()


def _another_port(cluster: Object, user: Object) -> None:
    cluster["server"] = f"https://127.0.0.1:{free_port()}"


def _no_such_name(cluster: Object, user: Object) -> None:
    cluster["server"] = "https://gone.invalid:6443"


def _another_token(cluster: Object, user: Object) -> None:
    user.clear()
    user["token"] = "revoked"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_another_port, "can't be reached since"),
        (_no_such_name, "the cluster at https://gone.invalid:6443 can't be reached since"),
        (_another_token, "does not let the queue in since"),
    ],
)
def test_it_is_said_and_passes_without_a_restart(
    moved: Moved, change: Callable[[Object, Object], None], said: str
) -> None:
    queue = moved.queue
    with Client(queue.processes[0].address, tenant="vision") as client:
        job = client.submit_job(gpu_pool_requested="training", **SLEEPS)
        queue.until("the job runs", lambda: client.job(job.id).state == "running")
        moved.write(change)
        queue.until("it is not ready", lambda: moved.ready()[0] == 503)
        assert said in moved.ready()[1]
        waiting = queue.until("its job says why", lambda: client.job(job.id).waiting)
        assert (waiting.reason, waiting.detail) == ("cluster", moved.ready()[1])
        time.sleep(3)
        assert client.job(job.id).state == "running", "nothing is taken for lost"
        moved.write()
        queue.until("it is ready again", lambda: moved.ready()[0] == 200)
        job.cancel()
        queue.until("it can end its job", lambda: client.job(job.id).state == "cancelled")
        assert client.job(job.id).attempt == 1


def test_a_cluster_that_has_begun_anew_is_the_queue_s(moved: Moved) -> None:
    """As after `gpupool local down` and `make up`: nothing of before is there, and no Lease."""
    queue = moved.queue
    with Client(queue.processes[0].address, tenant="vision") as client:
        job = client.submit_job(gpu_pool_requested="training", **SLEEPS)
        queue.until("the job runs", lambda: client.job(job.id).state == "running")
        moved.write(_another_port)
        queue.until("it is not ready", lambda: moved.ready()[0] == 503)
        queue.kube.wipe()
        apply(queue.kube, queue.plan)
        moved.write()
        queue.until("it is ready again", lambda: moved.ready()[0] == 200)
        queue.until("its job runs again", lambda: client.job(job.id).attempt == 2)
        queue.until("in its place", lambda: client.job(job.id).state == "running")
        history = [event.type for event in client.history(job.id)]
        assert len([type for type in history if type.endswith((".preempted", ".requeued"))]) == 1
        client.cancel_job(job.id)
