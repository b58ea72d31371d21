"""Jobs on a real control plane while everything around them dies: the queue's processes, PostgreSQL, the API
server, connections, pods and nodes.

Every job ends once, as its command does; each attempt was one Job object; nothing is left behind. An observer
with a watch of its own is the witness.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from gpupool.environment.plan.pods import JOB_LABEL
from gpupool.live.cluster.async_api import REQUEST_S
from gpupool.local.control_plane import ControlPlane
from gpupool.queue.store.embedded import Embedded
from tests.cluster.kube import Kube
from tests.cluster.queue import verdict
from tests.cluster.queue.conftest import ENVIRONMENT
from tests.cluster.queue.observer import Observer
from tests.cluster.queue.proxy import Proxy
from tests.cluster.queue.served import Queue, apply
from tests.examples import SEED
from tests.selection import LONG

JOBS, KILLS, OTHERS = (300, 20, 3) if LONG else (40, 3, 1)
"""`kill -9` of the queue's processes, and how often each of the other things happens."""
RUNS_S = 2
DRAIN_S = 400
SCRIPT = f"trap 'exit 0' TERM; echo $GPUPOOL_JOB_ID $GPUPOOL_ATTEMPT; sleep {RUNS_S} & wait"
"""Asked to stop it ends with 0 at once, which must not be taken for success."""


@pytest.fixture
def exposed(
    kube: Kube, control_plane: ControlPlane, queue_database: str, tmp_path: Path
) -> Iterator[tuple[Queue, Proxy]]:
    """The queue with every role in two processes, behind a proxy."""
    kube.wipe()
    spec = yaml.safe_load(ENVIRONMENT.read_text(encoding="utf-8"))
    with Proxy(kube.api.server) as proxy:
        made = Queue(kube, control_plane, spec, queue_database, tmp_path)
        made.kubeconfig = proxy.kubeconfig(control_plane.kubeconfig, tmp_path)
        apply(kube, made.plan)
        for _ in range(2):
            made.process()
        for process in made.processes:
            process.until_ready()
        yield made, proxy
        made.stop()
    kube.wipe()


def test_every_job_ends_once_whatever_dies(exposed: tuple[Queue, Proxy], postgres: Embedded) -> None:
    queue, proxy = exposed
    draw = random.Random(SEED)
    with Observer(queue.plane.kubeconfig) as observer:
        with queue.client() as client:
            for first in range(0, JOBS, 20):
                client.submit_job(
                    gpu_pool_requested="notebooks",
                    container_image="busybox:1.37",
                    container_command=["sh", "-c", SCRIPT],
                    retries=0,  # so that each failure is seen
                    array=min(20, JOBS - first),
                )
        events = [*[_kill(queue, draw)] * KILLS, *_disasters(queue, proxy, postgres, draw) * OTHERS]
        draw.shuffle(events)
        for number, event in enumerate(events):
            event()
            # Spread over the time that the jobs take; the last ones end undisturbed.
            wanted = JOBS * 3 // 4 * (number + 1) // len(events)
            queue.until(f"{wanted} jobs have ended", lambda wanted=wanted: _ended(queue) >= wanted, DRAIN_S)
        queue.until("every job has ended", lambda: _ended(queue) == JOBS, DRAIN_S)
        queue.until("nothing of them is held", lambda: not verdict.held(queue), 60)
        _judge(queue, observer)


def _kill(queue: Queue, draw: random.Random) -> Callable[[], None]:
    def kill() -> None:
        process = draw.choice(queue.processes)
        process.kill()
        process.start()

    return kill


def _disasters(
    queue: Queue, proxy: Proxy, postgres: Embedded, draw: random.Random
) -> list[Callable[[], None]]:
    kube = queue.kube

    def pods_deleted() -> None:
        running = kube.running("queue-vision", JOB_LABEL)
        for pod in draw.sample(running, min(3, len(running))):
            kube.api.delete("v1", "Pod", pod["metadata"]["name"], "queue-vision")

    def node_deleted() -> None:
        nodes = kube.nodes("gpupool.dev/pool=notebooks")
        if nodes:
            kube.api.delete("v1", "Node", draw.choice(nodes)["metadata"]["name"])

    def database_restarted() -> None:
        postgres.stop()
        postgres.start()

    def server_killed() -> None:
        kube.restart("kube-apiserver")

    def server_stands_still() -> None:
        """Connections stay open and nothing is answered, for longer than requests are waited for."""
        with kube.still("kube-apiserver"):
            time.sleep(REQUEST_S + 5)

    def connections_cut() -> None:
        proxy.cut()

    return [
        pods_deleted,
        node_deleted,
        database_restarted,
        server_killed,
        server_stands_still,
        connections_cut,
    ]


def _ended(queue: Queue) -> int:
    for _ in range(50):
        with contextlib.suppress(Exception):  # PostgreSQL is starting
            rows = queue.rows("SELECT count(*) AS n FROM gpu_jobs WHERE finished_at IS NOT NULL")
            return int(rows[0]["n"])
        time.sleep(0.2)
    raise AssertionError("PostgreSQL does not answer")


def _judge(queue: Queue, observer: Observer) -> None:
    jobs = verdict.ended_once(queue)
    assert len(jobs) == JOBS
    odd = [job for job in jobs if job["state"] != "succeeded" or job["failures"]]
    assert not odd, odd
    disrupted = [job for job in jobs if job["disruptions"]]
    print(f"{len(disrupted)} of {JOBS} jobs were disrupted, {sum(job['attempt'] for job in jobs)} attempts")
    verdict.cluster_agrees(queue, observer, jobs)
    assert len(verdict.succeeded_by_themselves(queue, observer)) == JOBS
