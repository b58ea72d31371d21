"""Exclusive jobs, shared jobs and a tenant's own GPU pods of every priority, all at once on one time-sliced
pool.

At no moment has an exclusive job's pod company on its node, and no job's pod is preempted for another job's:
the API server's record says so, not the queue's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpupool.environment.plan.pods import JOB_LABEL, SHARES_LABEL, pod_fields
from gpupool.generators import restricted_pod
from gpupool.live.cluster.live_objects import condition
from gpupool.local.control_plane import ControlPlane
from tests.cluster.kube import Kube
from tests.cluster.queue.conftest import ENVIRONMENT
from tests.cluster.queue.observer import Observer, Seen
from tests.cluster.queue.served import Queue, serving
from tests.examples import SEED
from tests.selection import LONG

SHARED, ALONE, OWN = (120, 30, 50) if LONG else (30, 8, 14)
NODES = 12 if LONG else 5
OWN_CLASSES = ("queue-critical", "queue-high", "queue-low")
"""Of these the first preempts."""
DRAIN_S = 400


@pytest.fixture
def queue(kube: Kube, control_plane: ControlPlane, queue_database: str, tmp_path: Path) -> Iterator[Queue]:
    """Machines with one T4 in eight slices, on which pods are simulated and end after three seconds."""
    spec = yaml.safe_load(ENVIRONMENT.read_text(encoding="utf-8"))
    spec["pools"] = [pool for pool in spec["pools"] if pool["name"] == "notebooks"]
    spec["pools"][0]["sharing"]["replicas"] = 8
    spec["pools"][0]["nodes"]["max"] = NODES
    spec["tenants"] = [
        {**one, "maxPriority": "queue-critical", "pools": {"notebooks": {"gpus": NODES}}}
        for one in spec["tenants"]
    ]
    with serving(kube, control_plane, spec, queue_database, tmp_path, simulate=True) as made:
        yield made


def test_an_exclusive_job_never_has_company(queue: Queue) -> None:
    draw = random.Random(SEED)
    kinds = ["shared"] * SHARED + ["exclusive"] * ALONE + ["own"] * OWN
    draw.shuffle(kinds)
    own: list[str] = []
    with Observer(queue.plane.kubeconfig) as observer, queue.client() as client:
        for number, kind in enumerate(kinds):
            if kind == "own":
                own.append(_own_pod(queue, number, draw.choice(OWN_CLASSES)))
            else:
                client.submit_job(
                    gpu_pool_requested="notebooks",
                    container_image="busybox:1.37",
                    container_command=["true"],
                    isolation_level=kind,
                    priority=draw.choice(("critical", "high", "low")),
                )
            if own and draw.random() < 0.25:
                _delete(queue, own, draw)

        def ended() -> bool:
            if own:  # they come and go as long as jobs run, and make room in the end
                _delete(queue, own, draw)
            rows = queue.rows("SELECT count(*) AS n FROM gpu_jobs WHERE finished_at IS NULL")
            return not rows[0]["n"]

        queue.until("every job has ended", ended, DRAIN_S)
        states = {row["state"] for row in queue.rows("SELECT state FROM gpu_jobs")}
        assert states == {"succeeded"}
        _judge(observer.seen("Pod"))
        _only_for_own_pods(queue, observer.seen("Pod"))


def _judge(seen: list[Seen]) -> None:
    nodes: dict[str, dict[str, bool]] = {}
    """Node -> uid -> whether that pod is to be alone."""
    alone, shared, where = set(), set(), {}
    for one in seen:
        if SHARES_LABEL not in one.labels:
            continue
        exclusive = "podAntiAffinity" in (one.thing["spec"].get("affinity") or {})
        node = one.holds_node
        if node is None:
            nodes.get(where.pop(one.uid, ""), {}).pop(one.uid, None)
            continue
        where[one.uid] = node
        there = nodes.setdefault(node, {})
        there[one.uid] = exclusive
        (alone if exclusive else shared).add(one.uid)
        assert len(there) == 1 or not any(there.values()), f"{one.name} on {node} beside {there}"
    assert len(alone) >= ALONE
    assert len(shared) >= SHARED + OWN // 2


def _only_for_own_pods(queue: Queue, seen: list[Seen]) -> None:
    """The scheduler names whom it preempted a pod for."""
    jobs = {one.uid: one for one in seen if JOB_LABEL in one.labels}
    levels = {one.thing["spec"]["priority"] for one in jobs.values()}
    assert len(levels) == 3, levels
    preempted = {
        uid
        for uid, one in jobs.items()
        if condition(one.thing, "DisruptionTarget").get("reason") == "PreemptionByScheduler"
    }
    print(f"preempted for own pods: {len(preempted)} of {len(jobs)} pods of jobs")
    for event in queue.kube.api.list("v1", "Event", "queue-vision"):
        if event["reason"] == "Preempted":
            assert event["involvedObject"]["uid"] in jobs
            by = event["message"].removeprefix("Preempted by pod ").split()[0]
            assert by not in jobs, f"for {jobs[by].name}: {event['involvedObject']['name']}"
            preempted.discard(event["involvedObject"]["uid"])
    assert not preempted, "nothing says for whom these were preempted"


def _own_pod(queue: Queue, number: int, priority: str) -> str:
    """A notebook that the tenant speech runs itself, with the label that its pool demands."""
    fields = pod_fields(queue.plan.pool("notebooks"), "nvidia.com/gpu")
    resources = {"requests": {"cpu": "10m", "memory": "8Mi"}, "limits": {"memory": "8Mi", **fields.limits}}
    name = f"own-{number}"
    queue.kube.api.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "queue-speech", "labels": dict(fields.labels)},
            "spec": {
                **fields.spec,
                **restricted_pod.POD,
                "priorityClassName": priority,
                "containers": [{"name": "own", **restricted_pod.CONTAINER, "resources": resources}],
            },
        }
    )
    return name


def _delete(queue: Queue, own: list[str], draw: random.Random) -> None:
    """One of those that run, so that a pod that waits for its node keeps waiting beside exclusive ones."""
    running = [pod["metadata"]["name"] for pod in queue.kube.running("queue-speech")]
    if running:
        name = draw.choice(running)
        queue.kube.api.delete("v1", "Pod", name, "queue-speech")
        if name in own:
            own.remove(name)
