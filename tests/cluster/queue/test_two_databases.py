"""Two databases in front of one cluster: nothing of the first queue's is touched, until somebody says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
import yaml

from gpupool.client import Client
from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.environment.plan.pods import DATABASE_LABEL, JOB_LABEL, LAUNCHER_USER, LEASE
from gpupool.queue.store.embedded import Embedded
from tests.cluster.queue.conftest import ENVIRONMENT, made_database
from tests.cluster.queue.served import PATIENCE_S, Process, Queue
from tests.command import gpupool

SLEEPS = {"container_image": "busybox:1.37", "container_command": ["sleep", "300"]}


@pytest.fixture(scope="module")
def other_database(postgres: Embedded) -> Iterator[str]:
    """That of an emptied or new queue."""
    with made_database(postgres, "other_queue", "migrated") as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "UPDATE gpu_identity SET database = gen_random_uuid(), mark = gen_random_uuid()"
            )
        yield url


def things(queue: Queue) -> list[Any]:
    """Jobs and pods of queues, with what could be changed of them."""
    jobs = queue.kube.api.list("batch/v1", "Job", None, JOB_LABEL)
    pods = queue.kube.api.list("v1", "Pod", None, JOB_LABEL)
    return [
        [
            thing["metadata"]["uid"],
            *(thing["metadata"].get(name) for name in ("finalizers", "deletionTimestamp")),
        ]
        for thing in (*jobs, *pods)
    ]


def readiness(process: Process) -> tuple[int, dict[str, Any]]:
    try:
        answer = httpx2.get(f"{process.address}/readyz")
    except httpx2.TransportError:
        return 0, {}
    return answer.status_code, answer.json()


def kept_off(process: Process) -> bool:
    status, answer = readiness(process)
    return status == 503 and answer["type"].endswith("/cluster-unavailable")


def test_the_second_leads_only_once_it_is_told_to(
    queue: Queue, vision: Client, other_database: str, tmp_path: Path
) -> None:
    job = vision.submit_job(gpu_pool_requested="training", **SLEEPS)
    queue.until("the job runs", lambda: vision.job(job.id).state == "running")
    own = queue.kube.api.list("batch/v1", "Job", None, f"{JOB_LABEL}={job.id}")[0]["metadata"]
    lease = queue.kube.api.get("coordination.k8s.io/v1", "Lease", LEASE, SYSTEM_NAMESPACE)
    assert lease is not None
    assert own["labels"][DATABASE_LABEL] == lease["spec"]["holderIdentity"]
    before = things(queue)

    file = tmp_path / ENVIRONMENT.name
    file.write_text(yaml.safe_dump(queue.spec), encoding="utf-8")
    arguments = [str(file), "--dev", "--kubeconfig", str(queue.kubeconfig), "--as", LAUNCHER_USER]
    second = Process(arguments, {"GPUPOOL_DATABASE_URL": other_database}, tmp_path / "second.log")
    second.start()
    try:
        queue.until("the second one says why not", lambda: kept_off(second))
        said = readiness(second)[1]["detail"]
        assert lease["spec"]["holderIdentity"] in said
        assert "gpupool serve ENV --take-over" in said
        with Client(second.address, tenant="vision") as client:
            waiting = client.submit_job(gpu_pool_requested="training", **SLEEPS)
            reason = queue.until("it takes jobs, which wait", lambda: client.job(waiting.id).waiting)
            assert (reason.reason, reason.detail) == ("cluster", said)
            page = httpx2.get(second.address + "/").text
            assert "belongs to the queue of another database" in page
            queue.until("it has looked again", lambda: "cluster.trouble" in second.log.read_text())
            assert things(queue) == before
            assert vision.job(job.id).state == "running"

            done = gpupool("serve", str(file), "--take-over", "--database", other_database, folder=tmp_path)
            assert done.returncode == 0, done.stderr
            queue.until("it leads", lambda: readiness(second)[0] == 200)
            queue.until("its job runs", lambda: client.job(waiting.id).state == "running")
            left = [line for line in second.log.read_text().splitlines() if "launcher.left" in line]
            assert job.id in "".join(left)
            assert [row for row in things(queue) if row in before] == before, (
                "what the first one runs is left"
            )
            queue.until("the first one stands back", lambda: readiness(queue.processes[0])[0] == 503)
            assert vision.job(job.id).state == "running"
    finally:
        second.stop()
    done = gpupool("serve", str(queue.file), "--take-over", "--database", queue.database, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    queue.until("the first one leads again", lambda: readiness(queue.processes[0])[0] == 200)
    vision.cancel_job(job.id)
    queue.until("and ends its job", lambda: vision.job(job.id).state == "cancelled", PATIENCE_S)
