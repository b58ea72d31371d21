"""Jobs that wait on a real control plane: what for is shown in plain words, and they go on with it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from gpupool.client import Client, Invalid
from gpupool.client.sync_client import Job
from gpupool.client.values import Waiting
from gpupool.environment import shipped
from gpupool.environment.plan.model import POOL_LABEL
from gpupool.environment.plan.pods import pod_fields
from gpupool.environment.plan.priority_classes import own_class
from gpupool.generators import restricted_pod
from gpupool.live.cluster.kube_api import ApiError
from tests.cluster.queue.served import PATIENCE_S, Queue
from tests.cluster.queue.test_runs import submit

GPU = "nvidia.com/gpu"


def waiting(queue: Queue, job: Job, reason: str) -> Waiting:
    """What the job waits for, once that is `reason`."""

    def shown() -> Waiting | None:
        found = job.refresh().waiting
        return found if found is not None and found.reason == reason else None

    found: Waiting = queue.until(f"it waits for {reason}", shown)
    return found


@contextlib.contextmanager
def own_pods(queue: Queue, tenant: str, pool: str, units: list[int]) -> Iterator[None]:
    """The tenant's own GPU pods, such as notebooks, which the queue does not know of."""
    plan = queue.plan
    owner = next(row for row in plan.tenants if row.name == tenant)
    namespace = owner.namespace
    names = [f"own-{number}" for number in range(len(units))]
    for name, count in zip(names, units, strict=True):
        fields = pod_fields(plan.pool(pool), GPU, count, own_class(plan, owner, pool))
        resources = {
            "requests": {"cpu": "10m", "memory": "8Mi"},
            "limits": {"memory": "8Mi", **fields.limits},
        }
        container = {"name": "own", **restricted_pod.CONTAINER, "resources": resources}
        queue.kube.api.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": namespace, "labels": dict(fields.labels)},
                "spec": {**fields.spec, **restricted_pod.POD, "containers": [container]},
            }
        )
    try:
        queue.until("they run", lambda: len(queue.kube.running(namespace)) == len(names))
        yield
    finally:
        for name in names:
            queue.kube.api.delete("v1", "Pod", name, namespace)


def test_what_a_policy_of_the_environment_refuses_is_not_accepted(queue: Queue, vision: Client) -> None:
    with pytest.raises(Invalid) as error:
        submit(vision, "true", container_image="busybox")
    said = "policy pin-images: image busybox is not pinned; name a version or a digest"
    assert (error.value.type, error.value.detail) == ("policy-refuses", f"{said}; change container_image")
    with pytest.raises(Invalid):
        vision.validate_job(gpu_pool_requested="notebooks", container_image="busybox")


def test_what_a_policy_of_somebody_elses_refuses_is_shown_with_its_sentence(
    queue: Queue, vision: Client
) -> None:
    with _policy_of_others(queue):
        job = submit(vision, "true", container_image="busybox:1.36")
        found = waiting(queue, job, "refused")
        assert found.detail == "its pod can't be created: policy others: not 1.36"
        assert job.why().waiting == found
        command = shipped.command("gpupool.cli.main", "jobs", "list", "--server", queue.processes[0].address)
        listed = subprocess.run([*command, "--tenant", "vision"], capture_output=True, text=True, check=True)
        assert found.detail in listed.stdout
        starting = httpx2.get(queue.processes[0].address).text.partition('id="starting"')[2]
        assert job.id in starting.partition("</div>")[0]
        job.cancel()
        assert job.wait(PATIENCE_S).state == "cancelled"


def test_a_pod_beyond_a_quota_is_shown_as_refused(queue: Queue, vision: Client) -> None:
    with _quota(queue, "count/pods"):
        job = submit(vision, "true")
        found = waiting(queue, job, "refused")
        assert "its pod can't be created: " in found.detail
        assert "exceeded quota: none" in found.detail
        job.cancel()
        assert job.wait(PATIENCE_S).state == "cancelled"


def test_a_job_of_two_nodes_that_gets_one_pod_only_fails_after_its_time(queue: Queue, vision: Client) -> None:
    with _settings(queue, {"unscheduled": "8s", "notStarted": "15m"}), _quota(queue, "pods", 1):
        job = submit(vision, "sleep 60", "training", gpu_count=8)
        found = waiting(queue, job, "refused")
        assert "its pod can't be created: " in found.detail
        assert "exceeded quota: none" in found.detail
        job = job.wait(PATIENCE_S)
    assert job.state == "failed"
    assert "not started after 8 s: its pod can't be created" in (job.reason or "")


def test_a_job_beyond_a_quota_is_tried_again_and_counts_as_no_attempt(queue: Queue, vision: Client) -> None:
    with _quota(queue, "count/jobs.batch"):
        job = submit(vision, "true")
        found = waiting(queue, job, "refused")
        assert "the cluster refuses its Job: " in found.detail
        assert "exceeded quota: none" in found.detail
    job = job.wait(PATIENCE_S)
    assert (job.state, job.attempt) == ("succeeded", 1), job.reason


def test_slots_that_pods_of_others_hold_are_not_handed_out(queue: Queue, vision: Client) -> None:
    with own_pods(queue, "speech", "notebooks", [1] * 8):
        queue.until("the queue has seen them", lambda: _foreign(queue, "speech") == 8)
        job = submit(vision, "true")
        found = waiting(queue, job, "capacity")
        assert "0 of 8 are free" in found.detail
        assert job.refresh().attempt == 0
    job = job.wait(PATIENCE_S)
    assert job.state == "succeeded", job.reason
    queue.until("they are forgotten", lambda: _foreign(queue, "speech") == 0)


def test_what_a_tenant_runs_itself_counts_for_it(queue: Queue, vision: Client) -> None:
    with own_pods(queue, "vision", "training", [4]):
        queue.until("the queue has seen it", lambda: _foreign(queue, "vision") == 4)
        job = submit(vision, "true", "training", gpu_count=8)
        assert "vision uses 4 of its 8" in waiting(queue, job, "tenant_limit").detail
        fits = submit(vision, "true", "training", gpu_count=4)
        assert fits.wait(PATIENCE_S).state == "succeeded"
    assert job.wait(PATIENCE_S).state == "succeeded"


def test_an_image_that_can_not_be_pulled_is_said(queue: Queue, vision: Client) -> None:
    """Nothing here pulls images, so that what a kubelet would write is written by the test."""
    with queue.kube.still("pod-runner"):
        job = submit(vision, "true")
        _container_waits(queue, job, "ImagePullBackOff", "Back-off pulling image busybox:1.37")
        assert "ImagePullBackOff: Back-off pulling image" in waiting(queue, job, "image").detail
        _container_waits(queue, job, "InvalidImageName", "couldn't parse image name")
        # No wait helps: the pod is asked to end, and has once its kubelet is back.
        queue.until("its Job is to end", lambda: _deleting(queue, job))
    job = job.wait(PATIENCE_S)
    assert job.state == "failed"
    assert "not started: InvalidImageName" in (job.reason or "")


def test_a_pod_without_a_node_fails_after_its_time(queue: Queue, vision: Client) -> None:
    times = {"unscheduled": "5s", "notStarted": "15m"}
    with _settings(queue, times), queue.kube.still("karpenter"), _cordoned(queue):
        job = submit(vision, "true")
        assert "no node for its pod" in waiting(queue, job, "node").detail
        job = job.wait(PATIENCE_S)
    assert job.state == "failed"
    assert "not started after 5 s: no node for its pod" in (job.reason or "")


def test_a_node_pool_at_its_limit_is_said_in_the_words_of_karpenter(queue: Queue, vision: Client) -> None:
    """A limit that the queue knows nothing of: somebody has lowered it in the cluster."""
    with _limited(queue, "training"):
        _no_nodes(queue, "training")
        job = submit(vision, "true", "training")
        words = "limits have been exhausted for nodepool (NodePool=training)"
        queue.until("they are shown", lambda: words in waiting(queue, job, "node").detail)
        for said in (job.refresh().waiting, job.why().waiting):
            assert said is not None
            assert said.reason == "node"
            assert said.detail.startswith("no node for its pod: ")
            assert words in said.detail
    job = job.wait(PATIENCE_S)
    assert job.state == "succeeded", job.reason


def test_a_node_that_never_offers_its_gpus_fails_after_its_time(queue: Queue, vision: Client) -> None:
    """Karpenter starts it, and the GPU Operator never makes it ready."""
    with _settings(queue, {"unscheduled": "20s", "notStarted": "15m"}), queue.kube.still("gpu-operator"):
        _no_nodes(queue, "training")
        job = submit(vision, "true", "training")
        queue.until("its node is there", lambda: queue.kube.nodes(f"{POOL_LABEL}=training"))
        short = "Insufficient nvidia.com/gpu"
        queue.until("its reason is shown", lambda: short in str(job.refresh().waiting))
        job = job.wait(PATIENCE_S)
    assert job.state == "failed"
    assert short in (job.reason or "")
    assert (job.reason or "").startswith("not started after 20 s: no node for its pod: ")
    assert "preemption" not in (job.reason or ""), "pods of the queue preempt nobody"


def test_a_container_that_does_not_start_is_tried_again_after_its_time(queue: Queue, vision: Client) -> None:
    with _settings(queue, {"unscheduled": "15m", "notStarted": "5s"}), queue.kube.still("pod-runner"):
        job = submit(vision, "sleep 3")
        waiting(queue, job, "starting")
        queue.until("its Job is to end", lambda: _deleting(queue, job))
    job = job.wait(PATIENCE_S)
    assert (job.state, job.attempt, job.failures, job.disruptions) == ("succeeded", 2, 0, 1)
    (again,) = [event for event in job.history() if event.type.endswith(".requeued")]
    assert "not started after 5 s: its container is starting on" in again.change["reason"]


@contextlib.contextmanager
def _cordoned(queue: Queue) -> Iterator[None]:
    """No pod gets to a node that is there already."""
    for node in queue.kube.nodes():
        queue.kube.patch_node(node["metadata"]["name"], {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        for node in queue.kube.nodes():
            queue.kube.patch_node(node["metadata"]["name"], {"spec": {"unschedulable": None}})


def _no_nodes(queue: Queue, pool: str) -> None:
    """Those that earlier jobs left go."""

    def left() -> list[str]:
        names = {node["metadata"]["name"]: node["metadata"]["labels"] for node in queue.kube.nodes()}
        return [name for name, labels in names.items() if labels.get(POOL_LABEL) == pool]

    for name in left():
        queue.kube.api.delete("v1", "Node", name)
    queue.until(f"no node of {pool} is left", lambda: not left())


@contextlib.contextmanager
def _limited(queue: Queue, pool: str) -> Iterator[None]:
    """Karpenter may start no node of the pool."""
    api, version = queue.kube.api, "karpenter.sh/v1"
    before = queue.kube.get(version, "NodePool", pool)["spec"]["limits"]
    api.patch(version, "NodePool", pool, {"spec": {"limits": {"nodes": "0"}}})
    try:
        yield
    finally:
        api.patch(version, "NodePool", pool, {"spec": {"limits": before}})


@contextlib.contextmanager
def _policy_of_others(queue: Queue) -> Iterator[None]:
    """A policy that the environment file knows nothing of: no pod may use busybox:1.36."""
    api, version = queue.kube.api, "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    expression = "object.spec.containers.all(c, c.image != 'busybox:1.36')"
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": "not 1.36"}],
    }
    binding = {"policyName": "others", "validationActions": ["Deny"]}
    kinds = {"ValidatingAdmissionPolicy": policy, "ValidatingAdmissionPolicyBinding": binding}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": {"containers": [{"name": "probe", "image": "busybox:1.36"}]},
    }

    def enforced() -> bool:
        try:
            api.request("POST", "/api/v1/namespaces/default/pods", {"dryRun": "All"}, pod)
        except ApiError as error:
            return "not 1.36" in str(error)
        return False

    try:
        for kind, spec in kinds.items():
            api.create({"apiVersion": version, "kind": kind, "metadata": {"name": "others"}, "spec": spec})
        queue.until("the policy is enforced", enforced)
        yield
    finally:
        for kind in kinds:
            api.delete(version, kind, "others")


@contextlib.contextmanager
def _quota(queue: Queue, resource: str, most: int = 0) -> Iterator[None]:
    """So many of this resource in the tenant's namespace."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": "queue-vision"},
        "spec": {"hard": {resource: str(most)}},
    }
    queue.kube.api.create(quota)
    try:
        queue.until(
            "the quota is counted",
            lambda: (
                queue.kube.get("v1", "ResourceQuota", "none", "queue-vision").get("status", {}).get("used")
            ),
        )
        yield
    finally:
        queue.kube.api.delete("v1", "ResourceQuota", "none", "queue-vision")


@contextlib.contextmanager
def _settings(queue: Queue, start: dict[str, str]) -> Iterator[None]:
    """`queue.start` of the environment file, while the block runs."""
    before = queue.plan_hash()
    queue.spec["queue"] = {"start": start}
    queue.write()
    queue.until("the queue has read it", lambda: queue.plan_hash() != before)
    try:
        yield
    finally:
        del queue.spec["queue"]
        queue.write()


def _foreign(queue: Queue, tenant: str) -> int:
    rows = queue.rows("SELECT coalesce(sum(units), 0) AS n FROM gpu_foreign_pods WHERE tenant = %s", tenant)
    return int(rows[0]["n"])


def _deleting(queue: Queue, job: Job) -> bool:
    """Its Job and its pod: a pod without that mark would run to success once it can start."""
    selector = f"gpupool.dev/job={job.id}"
    jobs = queue.kube.api.list("batch/v1", "Job", "queue-vision", selector)
    objects = [*jobs, *queue.kube.pods("queue-vision", selector)]
    return bool(jobs) and all("deletionTimestamp" in body["metadata"] for body in objects)


def _container_waits(queue: Queue, job: Job, reason: str, message: str) -> None:
    kube = queue.kube
    selector = f"gpupool.dev/job={job.id}"
    queue.until(
        "its pod has a node",
        lambda: any(pod["spec"].get("nodeName") for pod in kube.pods("queue-vision", selector)),
    )
    (pod,) = kube.pods("queue-vision", selector)
    state: dict[str, Any] = {"waiting": {"reason": reason, "message": message}}
    container = {
        "name": "job",
        "image": "busybox:1.37",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
    }
    name = pod["metadata"]["name"]
    kube.api.patch(
        "v1", "Pod", name, {"status": {"containerStatuses": [container]}}, "queue-vision", "status"
    )
