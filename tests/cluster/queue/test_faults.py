"""Faults that befall several parts at once, on a real control plane: leaders die while jobs are preempted,
the queue is cut off from PostgreSQL while another process takes over, a disk is full where pods run.

The first take minutes: `make test-all`. Single parts that die are `test_crashes`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
import yaml

from gpupool.client import Client
from gpupool.client.sync_client import Job
from gpupool.live.cluster.kube_api import STRATEGIC
from gpupool.local.control_plane import ControlPlane
from gpupool.local.pods import status
from tests.cluster.kube import Kube
from tests.cluster.queue import verdict
from tests.cluster.queue.conftest import ENVIRONMENT
from tests.cluster.queue.observer import Observer
from tests.cluster.queue.proxy import Proxy
from tests.cluster.queue.served import PATIENCE_S, Queue, apply
from tests.cluster.queue.test_runs import UNTIL_ASKED, submit, up
from tests.examples import SEED

ROUNDS = 4
"""Each waits for the minute that a job runs before it can be preempted."""
AWAY_S = 25.0
"""Several leases long."""


@pytest.fixture
def queue(kube: Kube, control_plane: ControlPlane, queue_database: str, tmp_path: Path) -> Iterator[Queue]:
    """The queue's environment, applied; a test starts its processes."""
    kube.wipe()
    made = Queue(
        kube, control_plane, yaml.safe_load(ENVIRONMENT.read_text(encoding="utf-8")), queue_database, tmp_path
    )
    apply(kube, made.plan)
    yield made
    made.stop()
    kube.wipe()


def test_leaders_die_while_jobs_are_preempted(queue: Queue) -> None:
    draw = random.Random(SEED)
    for _ in range(2):
        queue.process()
    for process in queue.processes:
        process.until_ready()
    script = f'[ "$GPUPOOL_ATTEMPT" -le {ROUNDS} ] || exit 0; {UNTIL_ASKED}'
    with (
        Observer(queue.plane.kubeconfig) as observer,
        queue.client() as vision,
        queue.client("speech") as speech,
    ):
        low = [
            submit(speech, script, "training", gpu_count=4, priority="low", preemptible=True)
            for _ in range(2)
        ]
        critical: list[Job] = []
        for round in range(ROUNDS):
            for job in low:
                up(job)
            critical.append(
                submit(vision, "echo up", "training", gpu_count=8, priority="critical", name=f"round {round}")
            )
            before = _preempted(queue)
            queue.until("a job is asked to stop", lambda before=before: _preempted(queue) > before)
            for _ in range(3):
                time.sleep(draw.uniform(0, 2))
                process = draw.choice(queue.processes)
                process.kill()
                process.start()
            process.until_ready()
            ended = vision.job(critical[-1].id).wait(PATIENCE_S)
            assert (ended.state, ended.attempt) == ("succeeded", 1), ended.reason
        for job in low:
            ended = speech.job(job.id).wait(PATIENCE_S)
            assert (ended.state, ended.disruptions, ended.failures) == ("succeeded", ROUNDS, 0), ended.reason
        queue.until("nothing of them is held", lambda: not verdict.held(queue), 60)
        verdict.cluster_agrees(queue, observer, verdict.ended_once(queue))
        verdict.succeeded_by_themselves(queue, observer)
    outcomes = queue.rows("SELECT outcome, count(*) AS n FROM gpu_attempts GROUP BY outcome")
    assert {row["outcome"]: row["n"] for row in outcomes} == {
        "preempted": 2 * ROUNDS,
        "succeeded": ROUNDS + 2,
    }


def test_another_process_goes_on_while_one_is_cut_off_from_postgresql(queue: Queue, tmp_path: Path) -> None:
    """Both think that they may lead: the one that is cut off neither starts nor ends anything, and says that
    it is not ready."""
    direct = queue.database
    where = urlsplit(direct)
    folder = parse_qs(where.query)["host"][0]
    with Proxy(Path(folder) / ".s.PGSQL.5432") as proxy, Observer(queue.plane.kubeconfig) as observer:
        queue.database = proxy.database(direct)
        cut_off = queue.process()
        cut_off.until_ready()
        queue.database = direct
        other = queue.process()
        other.until_ready()
        with Client(other.address, tenant="vision") as client:
            running = submit(client, "echo up; sleep 30")
            up(running)
            with proxy.partition():
                began = time.monotonic()
                during = [submit(client, "echo up") for _ in range(8)]
                for job in during:
                    assert client.job(job.id).wait(PATIENCE_S).state == "succeeded"
                queue.until("it says so", lambda: _status(cut_off.address) != 200, AWAY_S)
                time.sleep(max(0.0, AWAY_S - (time.monotonic() - began)))
            queue.until("it is ready again", lambda: _status(cut_off.address) == 200)
            after = [submit(client, "echo up") for _ in range(4)]
            for job in (running, *after):
                ended = client.job(job.id).wait(PATIENCE_S)
                assert (ended.state, ended.attempt) == ("succeeded", 1), ended.reason
        queue.until("nothing of them is held", lambda: not verdict.held(queue), 60)
        verdict.cluster_agrees(queue, observer, verdict.ended_once(queue))
        verdict.succeeded_by_themselves(queue, observer)
    for process in queue.processes:
        assert "Traceback" not in process.log.read_text()


FULL_DISK = {
    "the node's": "The node was low on resource: ephemeral-storage. Available: 1Gi. ",
    "its own limit": 'Container job exceeded its local ephemeral storage limit "20Gi". ',
}
"""Messages of the kubelet's eviction (k8s.io/kubernetes 1.36, pkg/kubelet/eviction/helpers.go)."""


@pytest.mark.parametrize("whose", FULL_DISK)
def test_a_pod_is_evicted_from_a_full_disk(queue: Queue, whose: str) -> None:
    """What fills its own limit has failed, and would again; that a node is full is not the job's fault, and
    it runs elsewhere. Only the node's has the condition DisruptionTarget (eviction_manager.go)."""
    queue.process().until_ready()
    runs_once = f'[ "$GPUPOOL_ATTEMPT" = 1 ] || exit 0; {UNTIL_ASKED}'
    with queue.client() as client:
        job = up(submit(client, runs_once))
        _evict(queue, job, FULL_DISK[whose], disrupted=whose == "the node's")
        ended = client.job(job.id).wait(PATIENCE_S)
    if whose == "the node's":
        assert (ended.state, ended.attempt, ended.failures) == ("succeeded", 2, 0), ended.reason
    else:
        assert (ended.state, ended.attempt, ended.failures) == ("failed", 1, 1), ended.reason
        assert "exceeded its local ephemeral storage limit" in (ended.reason or "")
    queue.until("nothing of it is held", lambda: not verdict.held(queue), 60)
    verdict.ended_once(queue)


def _evict(queue: Queue, job: Job, message: str, *, disrupted: bool) -> None:
    """As a kubelet writes it, which is played here."""
    (pod,) = queue.kube.pods("queue-vision", f"gpupool.dev/job={job.id}")
    path = f"/api/v1/namespaces/queue-vision/pods/{pod['metadata']['name']}/status"
    begun = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    body = status.terminated(pod, 1, status.exit_state(-9, begun), "Evicted", message)
    if disrupted:
        body["conditions"].append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "TerminationByKubelet",
                "message": message,
            }
        )
    with queue.kube.still("pod-runner"):
        queue.kube.api.request("PATCH", path, body={"status": body}, content_type=STRATEGIC)


def _preempted(queue: Queue) -> int:
    return int(queue.rows("SELECT count(*) AS n FROM gpu_events WHERE type = 'preempted'")[0]["n"])


def _status(address: str) -> int:
    try:
        return int(httpx2.get(f"{address}/readyz", timeout=5).status_code)
    except httpx2.TransportError:
        return 0
