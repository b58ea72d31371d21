"""What one tenant leaves idle is lent to another, and given back: on a real control plane, with its quotas,
policies and scheduler."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from gpupool.client.sync_client import Client, Job
from gpupool.environment.plan.pods import BORROWED_CLASS, BORROWED_LABEL, pod_fields
from gpupool.live.cluster.kube_api import ApiError
from gpupool.live.cluster.live_objects import condition
from gpupool.local.control_plane import ControlPlane
from gpupool.queue.kubernetes.job_manifest import GRACE_S
from tests.cluster.kube import Kube
from tests.cluster.queue.conftest import ENVIRONMENT
from tests.cluster.queue.observer import Observer
from tests.cluster.queue.served import PATIENCE_S, Queue, serving
from tests.cluster.queue.test_runs import STOPS_ONCE, attempts, submit, up

MINIMUM_S = 5


@pytest.fixture(scope="module")
def queue(
    kube: Kube, control_plane: ControlPlane, queue_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Queue]:
    spec = yaml.safe_load(ENVIRONMENT.read_text(encoding="utf-8"))
    spec["queue"] = {**spec.get("queue", {}), "minimumRuntime": f"{MINIMUM_S}s"}
    spec["tenants"][0]["pools"] = {"training": {"gpus": 4, "upTo": 8}}
    spec["tenants"][1]["pools"] = {"training": {"gpus": 4}}
    with serving(kube, control_plane, spec, queue_database, tmp_path_factory.mktemp("queue")) as served:
        yield served


def pod(queue: Queue, tenant: str, name: str, **spec: Any) -> dict[str, Any]:
    """A pod of a tenant's own with one GPU."""
    fields = pod_fields(queue.plan.pool("training"), "nvidia.com/gpu")
    container = {
        "name": "own",
        "image": "busybox:1.37",
        "command": ["sleep", "1000"],
        "resources": {"limits": fields.limits, "requests": {"cpu": "100m", "memory": "64Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    user = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    body = {
        **fields.spec,
        "securityContext": user,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": f"queue-{tenant}",
            "labels": {**fields.labels, "own": "true"},
        },
        "spec": {**body, **spec},
    }


def create(queue: Queue, body: dict[str, Any]) -> None:
    queue.kube.api.request("POST", f"/api/v1/namespaces/{body['metadata']['namespace']}/pods", {}, body)


def delete_own(queue: Queue, namespace: str) -> None:
    for own in queue.kube.api.list("v1", "Pod", namespace, "own"):
        queue.kube.api.delete("v1", "Pod", own["metadata"]["name"], namespace)


def _free(client: Client) -> int:
    return sum(row["free"] for pool in client.pools() if pool.name == "training" for row in pool.slots)


def fill(queue: Queue) -> list[Job]:
    """Eight jobs of vision that run, four of them borrowed."""
    with queue.client() as vision:
        # Pods of a tenant's own count like its jobs until the queue has seen them go.
        queue.until("the queue sees all of it free", lambda: _free(vision) == 8)
        jobs = [up(submit(vision, STOPS_ONCE, "training", priority="low")) for _ in range(8)]
    assert [job.borrowed for job in jobs] == [False] * 4 + [True] * 4
    return jobs


def test_what_is_granted_is_back_in_time_and_borrowed_jobs_go_on_after_it(queue: Queue) -> None:
    with (
        Observer(queue.plane.kubeconfig) as observer,
        queue.client("speech") as speech,
        queue.client() as vision,
    ):
        jobs = fill(queue)
        deadline = time.monotonic() + MINIMUM_S + GRACE_S + 12 + 10
        mine = [submit(speech, "echo up; sleep 12", "training") for _ in range(4)]
        assert {job.wait(PATIENCE_S).state for job in mine} == {"succeeded"}
        assert time.monotonic() < deadline
        ended = [attempts(queue, job) for job in jobs[4:]]
        assert {rows[0]["reason"] for rows in ended} == {"reclaimed by a tenant below its grant"}
        assert {(rows[0]["outcome"], rows[0]["borrowed"]) for rows in ended} == {("preempted", True)}
        assert {job.wait(PATIENCE_S).state for job in jobs[4:]} == {"succeeded"}
        assert [len(attempts(queue, job)) for job in jobs[:4]] == [1] * 4, "within its grant nothing is taken"
        vision.cancel_jobs(everything=True)
        for job in jobs[:4]:
            job.wait(PATIENCE_S)
    pods = [seen.thing for seen in observer.seen("Pod") if BORROWED_LABEL in seen.labels]
    assert {one["spec"]["priorityClassName"] for one in pods} == {BORROWED_CLASS}
    disrupted = {str(condition(one, "DisruptionTarget").get("reason")) for one in pods}
    assert "PreemptionByScheduler" not in disrupted


def test_a_tenants_own_pods_borrow_nothing(queue: Queue) -> None:
    try:
        for number in range(4):
            create(queue, pod(queue, "vision", f"own-{number}"))
        with pytest.raises(ApiError, match="exceeded quota: gpupool-granted"):
            create(queue, pod(queue, "vision", "own-4"))
    finally:
        delete_own(queue, "queue-vision")


def test_pods_of_the_owners_own_take_the_place_of_borrowed_ones(queue: Queue) -> None:
    """By Kubernetes' own preemption: the queue knows nothing of pods that wait."""
    jobs = fill(queue)
    try:
        create(queue, pod(queue, "speech", "own"))
        queue.until("it runs", lambda: _phase(queue, "own") == "Running")
        outcomes = [attempts(queue, job)[0]["outcome"] for job in jobs]
        queue.until(
            "one borrowed job was pushed out",
            lambda: [attempts(queue, job)[0]["outcome"] for job in jobs].count("preempted") == 1,
        )
        assert outcomes[:4] == [None] * 4
    finally:
        delete_own(queue, "queue-speech")
        with queue.client() as vision:
            vision.cancel_jobs(everything=True)
            for job in jobs:
                job.wait(PATIENCE_S)


def _phase(queue: Queue, name: str) -> str:
    found = queue.kube.api.get("v1", "Pod", name, "queue-speech")
    return str(found["status"]["phase"]) if found else ""
