"""`gpupool serve --background` compares what runs with what is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from gpupool.environment.plan.resolve import read_plan
from gpupool.local.control_plane import ControlPlane
from gpupool.local.job_queue import JobQueue
from gpupool.local.ports import free_port
from tests.cluster.kube import Kube
from tests.cluster.queue.conftest import ENVIRONMENT
from tests.cluster.queue.served import apply
from tests.required_programs import require


@pytest.fixture
def queue(kube: Kube, tmp_path: Path) -> Iterator[JobQueue]:
    require("nats-server")
    kube.wipe()
    apply(kube, read_plan(str(ENVIRONMENT)))
    made = JobQueue(tmp_path / "queue")
    yield made
    made.stop()
    kube.wipe()


def test_what_differs_is_replaced_and_a_cluster_that_is_gone_is_said(
    queue: JobQueue, control_plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    right = control_plane.kubeconfig.read_text()
    kubeconfig.write_text(right)
    port = free_port()
    arguments = ["serve", str(ENVIRONMENT), "--dev", "--kubeconfig", str(kubeconfig)]

    def started(more: tuple[str, ...] = (), at: int = port, file: str = "a.yaml") -> Any:
        asked = {"environment file": file}
        return queue.start([*arguments, *more], at, asked=asked, kubeconfig=kubeconfig)

    first = started()
    assert (first.already, first.replaced, first.trouble) == (False, (), None)
    again = started()
    assert (again.already, again.replaced) == (True, ())
    assert started(file="b.yaml").replaced == ("environment file",)
    assert queue.works_in(tmp_path)

    other = yaml.safe_load(right)
    other["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_port()}"
    kubeconfig.write_text(yaml.safe_dump(other))
    gone = started(file="b.yaml")
    assert gone.replaced == ("cluster",)
    assert "can't be reached since" in str(gone.trouble)
    still = started(file="b.yaml")
    assert (still.already, str(still.trouble)) == (True, str(gone.trouble)), (
        "it is not started again and again"
    )
    assert httpx2.get(f"{gone.address}/healthz").status_code == 200

    kubeconfig.write_text(right)
    well = started(at=port, file="b.yaml")
    assert (well.replaced, well.trouble) == (("cluster",), None)
    assert set(json.loads((queue.folder / "serve.json").read_text())) == {"nats", "serve"}
