"""Jobs on a real control plane, through every process of the queue: how attempts run, end, and run again.

The launcher acts as its own account throughout, so that each of these also says that its rights are enough.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

from gpupool.client import Client
from gpupool.client.sync_client import Job
from gpupool.client.values import Event
from gpupool.environment.plan.pods import RECORDED_FINALIZER
from gpupool.live.cluster.kube_api import STRATEGIC
from gpupool.local.pods import status
from gpupool.queue.domain.supply import hold_for
from gpupool.queue.kubernetes import observe
from gpupool.queue.kubernetes.job_manifest import CAPACITY_TYPE
from tests.cluster.queue.observer import Observer
from tests.cluster.queue.served import PATIENCE_S, Queue

UNTIL_ASKED = "trap 'echo got TERM; exit 0' TERM; echo up; while :; do sleep 0.1; done"
STOPS_ONCE = f'[ "$GPUPOOL_ATTEMPT" = 1 ] || {{ echo again; exit 0; }}; {UNTIL_ASKED}'
"""Attempt 1 ends with 0, but only when it is asked to; attempt 2 at once."""


def submit(client: Client, script: str, pool: str = "notebooks", **more: Any) -> Job:
    given: dict[str, Any] = {"container_image": "busybox:1.37", "retries": 0, **more}
    return client.submit_job(gpu_pool_requested=pool, container_command=["sh", "-c", script], **given)


def up(job: Job) -> Job:
    """The job once its command has said so."""
    assert "up" in next(line for line in job.logs(follow=True) if "up" in line)
    return job.refresh()


def types(job: Job) -> list[str]:
    return [kind(event) for event in job.history()]


def kind(event: Event) -> str:
    """The word for what happened, in a subject such as mlops.gpu.jobs.dispatched.t4.shared."""
    return event.type.removeprefix("mlops.gpu.jobs.").split(".")[0]


def attempts(queue: Queue, job: Job) -> list[dict[str, Any]]:
    return queue.rows("SELECT * FROM gpu_attempts WHERE job = %s ORDER BY attempt", job.id)


def test_a_job_runs_and_everything_about_it_is_known(queue: Queue, vision: Client) -> None:
    job = submit(vision, "echo hello from $GPUPOOL_POOL; echo to stderr >&2; sleep 1").wait(PATIENCE_S)
    assert (job.state, job.exit_code) == ("succeeded", 0), job.reason
    assert list(job.logs()) == ["hello from notebooks", "to stderr"]
    assert types(job) == ["enqueued", "dispatched", "launched", "started", "succeeded"]
    changes = {kind(event): event.change for event in job.history()}
    node = queue.kube.node(changes["started"]["node"])
    assert node["metadata"]["labels"]["gpupool.dev/pool"] == "notebooks"
    (attempt,) = attempts(queue, job)
    assert changes["launched"]["kubernetes_job"] == f"gp-{job.id.replace('-', '')}-1"
    assert attempt["node"] == node["metadata"]["name"]
    assert attempt["launched_at"] <= attempt["started_at"] <= attempt["finished_at"]
    # A quarter of a g4dn.xlarge (0.526 USD an hour) for the seconds that the container ran.
    ran = (attempt["finished_at"] - attempt["started_at"]).total_seconds()
    assert ran >= 1
    assert abs(job.cost_usd - 0.526 / 4 * ran / 3600) < 2e-6


def test_where_spot_goes_first_the_node_decides_the_price(queue: Queue, vision: Client) -> None:
    job = submit(vision, "sleep 1", pool="training").wait(PATIENCE_S)
    (attempt,) = attempts(queue, job)
    labels = queue.kube.node(attempt["node"])["metadata"]["labels"]
    assert attempt["capacity_type"] == labels[CAPACITY_TYPE] == "spot"
    offer = queue.plan.pool("training").machines[0]
    assert attempt["rate_micro"] == round(offer.spot_usd_per_hour * 1e6 / offer.gpus)
    ran = (attempt["finished_at"] - attempt["started_at"]).total_seconds()
    assert abs(job.cost_usd - attempt["rate_micro"] / 1e6 * ran / 3600) < 2e-6
    (held,) = queue.rows("SELECT micro FROM gpu_ledger WHERE job = %s AND kind = 'hold'", job.id)
    timeout = queue.rows("SELECT timeout_s FROM gpu_jobs WHERE id = %s", job.id)[0]["timeout_s"]
    assert held["micro"] == hold_for(round(offer.usd_per_hour * 1e6 / offer.gpus), timeout)


def test_texts_arrive_as_given_and_folders_can_be_written(queue: Queue, vision: Client) -> None:
    password = "pa$$w0rd$(HOME)$$(USER)$"
    script = (
        'echo "$P"; [ "$P" = \'pa$$w0rd$(HOME)$$(USER)$\' ] && echo same; echo "$1"; '
        'mkdir -p "$HF_HOME"; echo kept > "$HF_HOME/file"; cat "$GPUPOOL_SCRATCH/.cache/huggingface/file"; '
        'cd "$HOME" && mktemp > /dev/null && echo "$USER ${KUBECONFIG-none}"; '
        'case "$HOME" in /root*) echo "of root";; esac'
    )
    job = vision.submit_job(
        gpu_pool_requested="notebooks",
        container_image="busybox:1.37",
        container_command=["sh", "-c", script, "sh", "$$(UNKNOWN)$(HOME)"],
        env={"P": password},
        shm_size="256Mi",
        scratch_size="1Gi",
        retries=0,
    ).wait(PATIENCE_S)
    assert job.state == "succeeded", job.reason
    assert list(job.logs()) == [password, "same", "$$(UNKNOWN)$(HOME)", "kept", "job none"]
    made = queue.kube.get("batch/v1", "Job", f"gp-{job.id.replace('-', '')}-1", "queue-vision")
    shm, scratch = made["spec"]["template"]["spec"]["volumes"]
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "256Mi"}
    assert scratch["emptyDir"] == {"sizeLimit": "1Gi"}


def test_a_failed_job_is_tried_again_rather_elsewhere_and_then_fails(queue: Queue, vision: Client) -> None:
    _two_nodes(queue, vision)
    job = submit(vision, "echo attempt $GPUPOOL_ATTEMPT; exit 3", retries=1).wait(PATIENCE_S)
    assert (job.state, job.exit_code, job.failures) == ("failed", 3, 2)
    assert list(job.logs()) == ["attempt 1", "attempt 2"]
    first, second = attempts(queue, job)
    again = queue.kube.get("batch/v1", "Job", f"gp-{job.id.replace('-', '')}-2", "queue-vision")
    (preferred,) = again["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    (away,) = preferred["preference"]["matchFields"]
    assert away == {"key": "metadata.name", "operator": "NotIn", "values": [first["node"]]}
    assert first["node"] != second["node"]
    assert first["outcome"] == second["outcome"] == "failed"
    assert "exit code 3" in (job.reason or "")


def test_cancelling_gives_a_running_job_its_grace(queue: Queue, vision: Client) -> None:
    job = up(submit(vision, UNTIL_ASKED))
    job.cancel()
    job = job.wait(PATIENCE_S)
    assert job.state == "cancelled"
    assert list(job.logs())[-1] == "got TERM"
    _nothing_is_left(queue, job)


def test_a_job_that_is_cancelled_at_once_leaves_nothing(queue: Queue, vision: Client) -> None:
    job = submit(vision, UNTIL_ASKED)
    job.cancel()
    assert job.wait(PATIENCE_S).state == "cancelled"
    _nothing_is_left(queue, job)


def test_a_deleted_pod_is_a_disruption_and_the_job_runs_again(
    queue: Queue, vision: Client, observer: Observer
) -> None:
    """SIGTERM and then exit 0 is no success, and counts against no retries."""
    job = up(submit(vision, STOPS_ONCE))
    (pod,) = queue.kube.pods("queue-vision", f"gpupool.dev/job={job.id}")
    assert queue.kube.api.delete("v1", "Pod", pod["metadata"]["name"], "queue-vision")
    job = job.wait(PATIENCE_S)
    assert (job.state, job.attempt, job.failures, job.disruptions) == ("succeeded", 2, 0, 1), job.reason
    first, second = attempts(queue, job)
    assert (first["outcome"], second["outcome"]) == ("preempted", "succeeded")
    assert "requeued" in types(job)
    assert [line for line in job.logs() if line != "Terminated"] == ["up", "got TERM", "again"]
    _one_job_each(observer, job, 2)
    _nothing_is_left(queue, job)


def test_a_deleted_pod_that_its_kubelet_has_cleaned_up_is_a_disruption_too(
    queue: Queue, vision: Client
) -> None:
    """The launcher is away meanwhile, and the time of the deletion is by then that of the kubelet's."""
    job = up(submit(vision, STOPS_ONCE))
    name = _pod(queue, job)
    path = f"/api/v1/namespaces/queue-vision/pods/{name}"
    queue.processes[0].kill()
    with queue.kube.still("pod-runner"):  # a kubelet that takes its time, played here
        queue.kube.api.request("DELETE", path)
        pod = queue.kube.get("v1", "Pod", name, "queue-vision")
        started = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        ended = status.terminated(pod, 1, status.exit_state(0, started))
        queue.kube.api.request("PATCH", f"{path}/status", body={"status": ended}, content_type=STRATEGIC)
        time.sleep(1.1)  # times have whole seconds
        queue.kube.api.request("DELETE", path, {"gracePeriodSeconds": "0"})
        queue.processes[0].start()
        queue.processes[0].until_ready()
        queue.until("the first attempt is recorded", lambda: attempts(queue, job)[0]["outcome"])
    job = job.wait(PATIENCE_S)
    assert (job.state, job.attempt, job.failures, job.disruptions) == ("succeeded", 2, 0, 1), job.reason


def test_a_job_deleted_by_hand_is_a_disruption(queue: Queue, vision: Client, observer: Observer) -> None:
    job = up(submit(vision, STOPS_ONCE))
    assert queue.kube.api.delete("batch/v1", "Job", f"gp-{job.id.replace('-', '')}-1", "queue-vision")
    job = job.wait(PATIENCE_S)
    assert (job.state, job.attempt, job.failures) == ("succeeded", 2, 0), job.reason
    assert attempts(queue, job)[0]["outcome"] == "preempted"
    _one_job_each(observer, job, 2)


def test_a_job_on_a_node_that_is_removed_runs_elsewhere(queue: Queue, vision: Client) -> None:
    job = up(submit(vision, STOPS_ONCE, preemptible=True))
    node = attempts(queue, job)[0]["node"]
    queue.kube.api.delete("v1", "Node", node)  # Karpenter drains it first
    job = job.wait(PATIENCE_S)
    assert (job.state, job.attempt, job.failures) == ("succeeded", 2, 0), job.reason
    first, second = attempts(queue, job)
    assert first["outcome"] == "preempted"
    assert second["node"] != node


@pytest.mark.parametrize("way", ["deleted", "out-of-service"])
def test_nothing_starts_elsewhere_while_a_node_may_still_run_it(
    queue: Queue, vision: Client, observer: Observer, way: str
) -> None:
    """An unreachable node: its pod can't be seen to end until Kubernetes is sure that the node is gone."""
    job = up(submit(vision, STOPS_ONCE))
    kube, node = queue.kube, attempts(queue, job)[0]["node"]
    taints = kube.node(node)["spec"]["taints"]
    unreachable = {"key": observe.UNREACHABLE, "effect": "NoSchedule"}
    off = {"key": observe.OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
    heartbeats = kube.still("kwok") if way == "out-of-service" else contextlib.nullcontext()
    with kube.still("pod-runner"), heartbeats:  # as the kubelet of a machine without network
        with kube.still("kube-controller-manager"):  # which would see a node that is well
            kube.patch_node(node, {"spec": {"taints": [*taints, unreachable]}})
            kube.api.request("DELETE", f"/api/v1/namespaces/queue-vision/pods/{_pod(queue, job)}")
            waiting = queue.until("it is said why", lambda: job.refresh().waiting)
            assert waiting.reason == "node_unreachable", waiting
            assert f"node {node} does not answer" in waiting.detail
            kube.stays("the attempt goes on", lambda: job.refresh().attempt == 1, 3)
            # What an operator does once the machine is off for sure.
            if way == "deleted":
                _remove(queue, node)
            else:
                silent = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
                kube.api.patch(
                    "v1", "Node", node, {"status": {"conditions": [silent]}}, None, "status", STRATEGIC
                )
                kube.patch_node(node, {"spec": {"taints": [*taints, unreachable, off]}})
        # The controller manager gives pods of such nodes a final phase within a minute.
        queue.until("there is a second attempt", lambda: job.refresh().attempt == 2)
    job = job.wait(PATIENCE_S)
    assert (job.state, job.failures, job.disruptions) == ("succeeded", 0, 1), job.reason
    first, second = attempts(queue, job)
    assert (first["outcome"], second["node"] == node) == ("preempted", False)
    _ended_before_the_next(observer, job)
    if way == "out-of-service":
        assert observe.OUT_OF_SERVICE in {taint["key"] for taint in kube.node(node)["spec"]["taints"]}
        _remove(queue, node)  # as Karpenter would, after longer


def test_a_job_of_two_nodes_starts_whole_and_knows_its_peers(queue: Queue, vision: Client) -> None:
    script = 'echo "$JOB_COMPLETION_INDEX of $GPUPOOL_NODES; first: $GPUPOOL_FIRST_NODE"; echo up; sleep 15'
    job = submit(vision, script, "training", gpu_count=8)
    job = up(job)
    name = f"gp-{job.id.replace('-', '')}-1"
    service = queue.kube.get("v1", "Service", name, "queue-vision")
    assert service["spec"]["clusterIP"] == "None"
    selector = f"gpupool.dev/job={job.id}"

    def on_nodes() -> list[dict[str, Any]]:
        pods = queue.kube.pods("queue-vision", selector)
        return pods if all(pod["spec"].get("nodeName") for pod in pods) else []

    pods = queue.until("all have nodes", on_nodes)
    assert len({pod["spec"]["nodeName"] for pod in pods}) == len(pods) == 2
    assert {pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for pod in pods} == {"4"}
    assert {pod["spec"]["hostname"] for pod in pods} == {f"{name}-0", f"{name}-1"}
    assert {pod["spec"]["subdomain"] for pod in pods} == {name}
    job = job.wait(PATIENCE_S)
    assert job.state == "succeeded", job.reason
    assert list(job.logs()) == [f"0 of 2; first: {name}-0.{name}", "up"]
    _nothing_is_left(queue, job)
    queue.kube.api.delete("batch/v1", "Job", name, "queue-vision")
    queue.until("its Service has gone with it", lambda: not _services(queue))


def _two_nodes(queue: Queue, client: Client) -> None:
    """The pool has both of its nodes from here on: two jobs that are alone on theirs have needed them."""
    jobs = [submit(client, UNTIL_ASKED, isolation_level="exclusive") for _ in range(2)]
    for job in [up(job) for job in jobs]:
        job.cancel()
        assert job.wait(PATIENCE_S).state == "cancelled"


def _pod(queue: Queue, job: Job) -> str:
    (pod,) = queue.kube.pods("queue-vision", f"gpupool.dev/job={job.id}")
    return str(pod["metadata"]["name"])


def _remove(queue: Queue, node: str) -> None:
    """The Node's object, at once."""
    queue.kube.patch_node(node, {"metadata": {"finalizers": None}})
    queue.kube.api.delete("v1", "Node", node)


def _ended_before_the_next(observer: Observer, job: Job) -> None:
    """The first attempt's pod had a final phase or was gone before there was a pod of the second."""
    pods = [one for one in observer.seen("Pod") if one.labels.get("gpupool.dev/job") == job.id]
    over = False
    for one in pods:
        if one.labels["gpupool.dev/attempt"] == "1":
            over = over or one.type == "DELETED" or one.thing["status"].get("phase") == "Failed"
        else:
            assert over, f"{one.name} is there while the first may still run"
    assert pods[-1].labels["gpupool.dev/attempt"] == "2"


def _one_job_each(observer: Observer, job: Job, wanted: int) -> None:
    """Each attempt was one Job object, however often anybody asked for it."""
    made = {
        (one.labels["gpupool.dev/attempt"], one.uid)
        for one in observer.seen("Job")
        if one.labels.get("gpupool.dev/job") == job.id
    }
    assert sorted(attempt for attempt, _ in made) == [str(n + 1) for n in range(wanted)]


def _nothing_is_left(queue: Queue, job: Job) -> None:
    """No Service without its Job, and no finalizer that would keep the Job."""

    def gone() -> bool:
        jobs = queue.kube.api.list("batch/v1", "Job", "queue-vision", f"gpupool.dev/job={job.id}")
        held = [one for one in jobs if RECORDED_FINALIZER in (one["metadata"].get("finalizers") or ())]
        return not held and _services(queue) <= {one["metadata"]["uid"] for one in jobs}

    queue.until("nothing of it is left", gone, 30)


def _services(queue: Queue) -> set[str]:
    """The owners of the Services."""
    services = queue.kube.api.list("v1", "Service", "queue-vision")
    return {owner["uid"] for one in services for owner in one["metadata"]["ownerReferences"]}
