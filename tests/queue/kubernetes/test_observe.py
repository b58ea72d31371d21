"""What Jobs and pods say of an attempt, case by case."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpupool.queue.kubernetes.job_manifest import INDEX
from gpupool.queue.kubernetes.observe import (
    GONE,
    OUT_OF_SERVICE,
    UNREACHABLE,
    VERDICT,
    Ended,
    PendingJob,
    RunningJob,
    verdict_text,
    view,
)
from gpupool.queue.kubernetes.pod_ends import TAKEN_AWAY
from gpupool.queue.records import Outcome, WaitReason
from tests.queue.kubernetes.fake_cluster import text

Object = dict[str, Any]
CREATED = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
NOW = CREATED + timedelta(minutes=10)


def at(seconds: int) -> str:
    return text(CREATED + timedelta(seconds=seconds))


def job(
    *conditions: Object, deleted: bool = False, parallelism: int = 1, verdict: str | None = None
) -> Object:
    metadata: Object = {"name": "gp-1", "creationTimestamp": at(0)}
    if deleted:
        metadata["deletionTimestamp"] = at(300)
    if verdict:
        metadata["annotations"] = {VERDICT: verdict}
    return {
        "metadata": metadata,
        "spec": {"parallelism": parallelism},
        "status": {"conditions": list(conditions)},
    }


def true(type: str, reason: str, message: str = "", since: int = 10) -> Object:
    said = {"message": message} if message else {}
    return {"type": type, "status": "True", "reason": reason, "lastTransitionTime": at(since), **said}


def pod(
    state: Object | None = None,
    *conditions: Object,
    phase: str = "Running",
    node: str | None = "n1",
    deleted: int | None = None,
    grace: int = 30,
    **status: Any,
) -> Object:
    """`deleted`: the second in which somebody asked for its end."""
    metadata: Object = {"name": "gp-1-0", "creationTimestamp": at(1)}
    if deleted is not None:
        metadata |= {"deletionTimestamp": at(deleted + grace), "deletionGracePeriodSeconds": grace}
    containers = [{"name": "job", "image": "work:1", "state": state}] if state else []
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "job"}], **({"nodeName": node} if node else {})},
        "status": {"phase": phase, "conditions": list(conditions), "containerStatuses": containers, **status},
    }


def ended(code: int, finished: int = 200, **more: Any) -> Object:
    return {"terminated": {"exitCode": code, "startedAt": at(20), "finishedAt": at(finished), **more}}


def waiting(reason: str, message: str | None = None) -> Object:
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def node(*taints: str) -> dict[str, Object]:
    return {"n1": {"metadata": {"name": "n1"}, "spec": {"taints": [{"key": taint} for taint in taints]}}}


UP = {"running": {"startedAt": at(20)}}
SCHEDULED = true("PodScheduled", "")
DISRUPTED = [
    *("PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC"),
    "TerminationByKubelet",
]
OVER: dict[str, tuple[Object, Outcome]] = {
    "exit 0": (pod(ended(0), phase="Succeeded"), Outcome("succeeded", None, 0)),
    "exit 0, and the phase lags": (pod(ended(0)), Outcome("succeeded", None, 0)),
    "exit 3": (pod(ended(3, reason="Error"), phase="Failed"), Outcome("failed", "exit code 3", 3)),
    "out of memory": (
        pod(ended(137, reason="OOMKilled"), phase="Failed"),
        Outcome("failed", "exit code 137, OOMKilled", 137),
    ),
    "could not start its program": (
        pod(ended(128, reason="StartError", message="no such file"), phase="Failed"),
        Outcome("failed", "exit code 128, StartError: no such file", 128),
    ),
    "deleted a second after the end": (
        pod(ended(0, 200), phase="Succeeded", deleted=201),
        Outcome("succeeded", None, 0),
    ),
    "failed a second before it was deleted": (
        pod(ended(3, 200, reason="Error"), phase="Failed", deleted=201),
        Outcome("failed", "exit code 3", 3),
    ),
    "deleted in the second of the end": (
        pod(ended(0, 200), phase="Succeeded", deleted=200),
        Outcome("preempted", "its pod was deleted", 0),
    ),
    "exit 0 after SIGTERM": (
        pod(ended(0, 205), phase="Succeeded", deleted=200),
        Outcome("preempted", "its pod was deleted", 0),
    ),
    "exit 143 after SIGTERM": (
        pod(ended(143, 205), phase="Failed", deleted=200),
        Outcome("preempted", "its pod was deleted", 143),
    ),
    "deleted with another grace": (
        pod(ended(0, 200), phase="Succeeded", deleted=199, grace=0),
        Outcome("preempted", "its pod was deleted", 0),
    ),
    "exit 0 after SIGTERM, its kubelet has deleted it since": (
        pod(ended(0, 205), phase="Succeeded", deleted=208, grace=0),
        Outcome("preempted", "its pod was deleted", 0),
    ),
    "deleted long after the end": (
        pod(ended(0, 200), phase="Succeeded", deleted=600, grace=0),
        Outcome("succeeded", None, 0),
    ),
    "deleted before a kubelet had it": (
        pod(phase="Pending", node=None, deleted=100, grace=0),
        Outcome("preempted", "its pod was deleted"),
    ),
    "final by the collector of pods, its node being gone": (
        pod(UP, true("DisruptionTarget", "DeletionByPodGC", "m"), phase="Failed", deleted=100),
        Outcome("preempted", "DeletionByPodGC: m"),
    ),
    "evicted for memory by the kubelet": (
        pod(
            None,
            true("DisruptionTarget", "TerminationByKubelet", "low on memory"),
            phase="Failed",
            reason="Evicted",
        ),
        Outcome("preempted", "TerminationByKubelet: low on memory"),
    ),
    "evicted for what it wrote itself": (
        pod(None, phase="Failed", reason="Evicted", message="Usage of EmptyDir volume exceeds the limit."),
        Outcome("failed", "Usage of EmptyDir volume exceeds the limit."),
    ),
    "evicted while it ran": (
        pod(ended(137), phase="Failed", reason="Evicted", message="Container job exceeded its local limit."),
        Outcome("failed", "Container job exceeded its local limit.", 137),
    ),
    "refused by what plays its kubelet": (
        pod(None, phase="Failed", reason="NoCommand", message="its container has no command"),
        Outcome("failed", "its container has no command"),
    ),
    "refused by the kubelet": (
        pod(None, phase="Failed", reason="OutOfnvidia.com/gpu", message="Node didn't have enough resource."),
        Outcome("failed", "Node didn't have enough resource."),
    ),
    "deadline of the pod": (
        pod(ended(137), phase="Failed", reason="DeadlineExceeded"),
        Outcome("timeout", "its deadline has passed", 137, retry=False),
    ),
    **{
        f"{reason}, exit {code}": (
            pod(ended(code), true("DisruptionTarget", reason, "m"), phase=phase),
            Outcome("preempted", f"{reason}: m", code),
        )
        for reason in DISRUPTED
        for code, phase in ((0, "Succeeded"), (137, "Failed"))
    },
}


TAKEN = {
    reason: pod(state, phase="Failed", **status)
    for reason, state, status in (
        ("ContainerStatusUnknown", ended(137, reason="ContainerStatusUnknown", message="lost"), {}),
        ("NodeShutdown", None, {"reason": "NodeShutdown", "message": "Pod was rejected"}),
        ("Terminated", ended(143), {"reason": "Terminated", "message": "imminent node shutdown"}),
        ("Shutdown", ended(0), {"reason": "Shutdown"}),
        ("NodeLost", UP, {"reason": "NodeLost"}),
        ("NodeAffinity", None, {"reason": "NodeAffinity"}),
        ("UnexpectedAdmissionError", None, {"reason": "UnexpectedAdmissionError"}),
        ("Preempting", None, {"reason": "Preempting"}),
    )
}


@pytest.mark.parametrize("reason", TAKEN)
def test_what_the_platform_takes_away_is_no_failure(reason: str) -> None:
    found = view(job(true("Failed", "PodFailurePolicy")), [TAKEN[reason]], node(), NOW)
    assert isinstance(found, Ended)
    assert (found.outcome.kind, found.outcome.retry) == ("preempted", True)
    assert (found.outcome.reason or "").startswith(reason)


def test_every_reason_of_the_table_is_tried() -> None:
    assert TAKEN_AWAY - {"Preempted"} == TAKEN.keys()


def indexed(given: Object, index: int) -> Object:
    metadata = {**given["metadata"], "annotations": {INDEX: str(index)}}
    return {**given, "metadata": metadata}


GOOD = pod(ended(0), phase="Succeeded")
SURPLUS = {
    "deleted while it ran": pod(ended(143, 230), phase="Failed", deleted=205),
    "deleted, and ended with 0": pod(ended(0, 230), phase="Succeeded", deleted=205),
    "deleted before it had a node": pod(phase="Pending", node=None, deleted=205, grace=0),
    "failed, because the first had the lock": pod(ended(1, 190), phase="Failed"),
    "disrupted": pod(ended(137), true("DisruptionTarget", "DeletionByPodGC"), phase="Failed"),
    "lost": pod(UP, phase="Failed", deleted=205),
    "succeeded too": pod(ended(0, 203), phase="Succeeded"),
}
COMPLETE, FAILED = true("Complete", "CompletionsReached"), true("Failed", "BackoffLimitExceeded")


@pytest.mark.parametrize("name", SURPLUS)
@pytest.mark.parametrize("stated", [(), (COMPLETE,), (FAILED,)], ids=["no word", "complete", "failed"])
def test_a_surplus_pod_takes_nothing_from_a_run_that_succeeded(name: str, stated: tuple[Object, ...]) -> None:
    for deleted in (False, True):
        for pods in ([GOOD, SURPLUS[name]], [SURPLUS[name], GOOD]):
            found = view(job(*stated, deleted=deleted), pods, node(), NOW)
            assert isinstance(found, Ended)
            assert found.outcome == Outcome("succeeded", None, 0)


@pytest.mark.parametrize("name", SURPLUS)
def test_of_several_each_index_counts_once(name: str) -> None:
    pods = [indexed(GOOD, 0), indexed(SURPLUS[name], 0), indexed(GOOD, 1)]
    found = view(job(parallelism=2), pods, node(), NOW)
    assert isinstance(found, Ended)
    assert found.outcome.kind == "succeeded"
    twice = view(job(FAILED, parallelism=2), [indexed(GOOD, 0), indexed(GOOD, 0)], node(), NOW)
    assert isinstance(twice, Ended)
    assert twice.outcome.kind == "preempted", "the second index never ran"


def test_a_surplus_pod_that_runs_is_waited_for_and_one_that_ends_stops_nothing() -> None:
    assert isinstance(view(job(COMPLETE), [GOOD, pod(UP)], node(), NOW), RunningJob)
    for over in (SURPLUS["deleted while it ran"], SURPLUS["disrupted"]):
        found = view(job(), [over, pod(UP)], node(), NOW)
        assert isinstance(found, RunningJob)
        assert found.failed is None
        both = [indexed(over, 0), indexed(pod(UP), 0), indexed(pod(UP), 1)]
        found = view(job(parallelism=2), both, node(), NOW)
        assert isinstance(found, RunningJob)
        assert found.failed is None


def test_a_complete_job_has_succeeded_unless_its_pod_was_asked_to_end() -> None:
    for pods in ([], [SURPLUS["deleted while it ran"]]):
        found = view(job(COMPLETE, deleted=True), pods, node(), NOW)
        assert isinstance(found, Ended)
        assert found.outcome.kind == "succeeded"
    drained = pod(ended(0, 205), true("DisruptionTarget", "EvictionByEvictionAPI"), phase="Succeeded")
    found = view(job(COMPLETE), [drained], node(), NOW)
    assert isinstance(found, Ended)
    assert found.outcome.kind == "preempted", "it saved its work and is not done"


def test_a_success_before_the_launcher_asked_is_one() -> None:
    verdict = verdict_text(Outcome("timeout", "too long", retry=False))
    found = view(
        job(deleted=True, verdict=verdict), [pod(ended(0, 199), phase="Succeeded", deleted=200)], {}, NOW
    )
    assert isinstance(found, Ended)
    assert found.outcome.kind == "succeeded"


def test_a_duration_is_by_one_clock() -> None:
    """Each kubelet's own, however far from the others', the API server's and this process's."""
    fast = pod(
        {"terminated": {"exitCode": 0, "startedAt": at(7220), "finishedAt": at(7250)}}, phase="Succeeded"
    )
    found = view(job(parallelism=2), [indexed(fast, 0), indexed(pod(ended(0, 80)), 1)], node(), NOW)
    assert isinstance(found, Ended)
    assert found.ran == timedelta(seconds=60)


@pytest.mark.parametrize("name", OVER)
def test_how_a_pod_ended(name: str) -> None:
    given, outcome = OVER[name]
    found = view(job(), [given], node(), NOW)
    assert isinstance(found, Ended)
    assert found.outcome == outcome
    states = [one["state"] for one in given["status"]["containerStatuses"]]
    assert found.started == (CREATED + timedelta(seconds=20) if states else None)
    seconds = [one["terminated"]["finishedAt"] for one in states if one != UP]
    ran = datetime.fromisoformat(seconds[0]) - found.started if seconds and found.started else None
    taken = timedelta(seconds=110) if states == [UP] else None
    assert found.ran == (ran or taken)


def test_what_ran_within_one_of_kubernetes_seconds_has_run() -> None:
    """Its times are whole seconds: else a short job would cost nothing."""
    found = view(job(), [pod(ended(0, 20), phase="Succeeded")], node(), NOW)
    assert isinstance(found, Ended)
    assert (found.started, found.ran) == (CREATED + timedelta(seconds=20), timedelta(seconds=1))


@pytest.mark.parametrize(
    ("nodes", "detail"),
    [
        (node(), None),
        (node(UNREACHABLE), "node n1 is unreachable"),
    ],
    ids=["answers", "unreachable"],
)
def test_a_container_that_runs_has_not_ended(nodes: dict[str, Object], detail: str | None) -> None:
    found = view(job(), [pod(UP)], nodes, NOW)
    assert isinstance(found, RunningJob)
    assert (found.since, found.node) == (CREATED + timedelta(seconds=20), "n1")
    assert (found.waiting is None) if detail is None else (found.waiting and detail in found.waiting.detail)


@pytest.mark.parametrize("nodes", [node(), node(UNREACHABLE)], ids=["answers", "unreachable"])
def test_a_pod_that_is_to_end_has_not_ended(nodes: dict[str, Object]) -> None:
    """Deleting pod and Job changes nothing while the container may run, nor does a verdict."""
    verdict = verdict_text(Outcome("timeout", "too long", retry=False))
    found = view(job(deleted=True, verdict=verdict), [pod(UP, deleted=300)], nodes, NOW)
    assert isinstance(found, RunningJob)
    assert found.waiting is not None
    assert found.waiting.reason is (
        WaitReason.NODE_UNREACHABLE if UNREACHABLE in str(nodes) else WaitReason.TERMINATING
    )


@pytest.mark.parametrize("nodes", [{}, node(OUT_OF_SERVICE), node(UNREACHABLE, OUT_OF_SERVICE)])
def test_a_deleted_pod_may_run_until_kubernetes_says_otherwise(nodes: dict[str, Object]) -> None:
    """A node that is gone, or out of service, proves nothing: its pods get a final phase when it is sure."""
    assert isinstance(view(job(), [pod(UP, deleted=100)], nodes, NOW), RunningJob)
    on_its_way = pod(None, SCHEDULED, phase="Pending", deleted=100)
    assert isinstance(view(job(), [on_its_way], nodes, NOW), PendingJob)


PENDING = {
    "not looked at": (pod(phase="Pending", node=None), WaitReason.NODE, "has not looked at it yet", False),
    "no node": (
        pod(
            None,
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"},
            phase="Pending",
            node=None,
        ),
        WaitReason.NODE,
        "0/3 nodes are available",
        False,
    ),
    "starting": (
        pod(waiting("ContainerCreating"), SCHEDULED, phase="Pending"),
        WaitReason.STARTING,
        "n1",
        False,
    ),
    "no state yet": (pod(None, SCHEDULED, phase="Pending"), WaitReason.STARTING, "n1", False),
    "bad configuration": (
        pod(waiting("CreateContainerConfigError", 'secret "x" not found'), SCHEDULED, phase="Pending"),
        WaitReason.STARTING,
        'secret "x" not found',
        False,
    ),
    **{
        reason: (
            pod(waiting(reason), SCHEDULED, phase="Pending"),
            WaitReason.IMAGE,
            f"{reason}: work:1",
            reason in ("InvalidImageName", "ErrImageNeverPull"),
        )
        for reason in ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
    },
}


@pytest.mark.parametrize("name", PENDING)
def test_why_no_container_runs(name: str) -> None:
    given, reason, detail, hopeless = PENDING[name]
    found = view(job(), [given], node(), NOW)
    assert isinstance(found, PendingJob)
    assert found.waiting.reason is reason
    assert detail in found.waiting.detail
    assert found.hopeless is hopeless
    assert found.scheduled is ("nodeName" in given["spec"])


def test_an_unreachable_node_is_named_before_the_container_starts() -> None:
    found = view(job(), [pod(waiting("ContainerCreating"), SCHEDULED)], node(UNREACHABLE), NOW)
    assert isinstance(found, PendingJob)
    assert found.waiting.reason is WaitReason.NODE_UNREACHABLE


GANGS = {
    "both succeed": ([pod(ended(0, 200)), pod(ended(0, 250))], Outcome("succeeded", None, 0), 250),
    "the one that failed by itself says why": (
        [pod(ended(143, 210), phase="Failed", deleted=205), pod(ended(3, 220), phase="Failed")],
        Outcome("failed", "exit code 3", 3),
        220,
    ),
    "the first that failed says why": (
        [pod(ended(4, 220), phase="Failed"), pod(ended(3, 210), phase="Failed")],
        Outcome("failed", "exit code 3", 3),
        220,
    ),
    "one is disrupted": (
        [
            pod(ended(0, 200), phase="Succeeded"),
            pod(ended(137, 210), true("DisruptionTarget", "EvictionByEvictionAPI", "m"), phase="Failed"),
        ],
        Outcome("preempted", "EvictionByEvictionAPI: m", 137),
        210,
    ),
}


@pytest.mark.parametrize("name", GANGS)
def test_several_pods_end_together(name: str) -> None:
    pods, outcome, last = GANGS[name]
    found = view(job(parallelism=2), pods, node(), NOW)
    assert isinstance(found, Ended)
    assert (found.outcome, found.ran) == (outcome, timedelta(seconds=last - 20))


def test_one_of_several_that_failed_ends_the_others() -> None:
    found = view(job(parallelism=2), [pod(UP), pod(ended(3), phase="Failed")], node(), NOW)
    assert isinstance(found, RunningJob)
    assert found.failed == Outcome("failed", "exit code 3", 3)


def test_one_of_several_that_succeeded_ends_nothing() -> None:
    found = view(job(parallelism=2), [pod(UP), pod(ended(0), phase="Succeeded")], node(), NOW)
    assert isinstance(found, RunningJob)
    assert found.failed is None
    missing = view(job(parallelism=2), [pod(ended(0), phase="Succeeded")], node(), NOW)
    assert not isinstance(missing, Ended), "the second pod is not there yet"


STARTING = pod(waiting("InvalidImageName"), SCHEDULED, phase="Pending", node="n2")
HALF_STARTED = {
    "never created": ([pod(UP)], WaitReason.STARTING, "1 of its 2 pods is not created yet"),
    "without a node": (
        [pod(UP), pod(phase="Pending", node=None)],
        WaitReason.NODE,
        "has not looked at it yet",
    ),
    "without an image": ([pod(UP, SCHEDULED), STARTING], WaitReason.IMAGE, "InvalidImageName"),
    "on its way": (
        [pod(UP, SCHEDULED), pod(waiting("ContainerCreating"), SCHEDULED, node="n2")],
        WaitReason.STARTING,
        "its container is starting on n2",
    ),
}


@pytest.mark.parametrize("name", HALF_STARTED)
def test_several_pods_run_once_the_last_has_started(name: str) -> None:
    pods, reason, detail = HALF_STARTED[name]
    for given in (pods, pods[::-1]):
        found = view(job(parallelism=2), given, node(), NOW)
        assert isinstance(found, PendingJob)
        assert found.waiting.reason is reason
        assert detail in found.waiting.detail
        assert found.hopeless is (reason is WaitReason.IMAGE)


def test_a_pod_that_fails_while_another_has_not_started_ends_both() -> None:
    found = view(job(parallelism=2), [pod(ended(3), phase="Failed"), STARTING], node(), NOW)
    assert isinstance(found, RunningJob)
    assert found.failed == Outcome("failed", "exit code 3", 3)


FAILED_ON = {
    "by itself": (job(parallelism=2), [pod(ended(0)), pod(ended(3), phase="Failed", node="n2")], "n2"),
    "by itself, and the other was stopped": (
        job(parallelism=2),
        [pod(ended(143, 190), phase="Failed", deleted=185), pod(ended(3, 200), phase="Failed", node="n2")],
        "n2",
    ),
    "not started": (
        job(deleted=True, parallelism=2, verdict=verdict_text(Outcome("failed", "not started"))),
        [pod(ended(143, 190), phase="Failed", deleted=185), pod(phase="Failed", node="n2", deleted=185)],
        "n2",
    ),
    "without a node": (
        job(deleted=True, parallelism=2, verdict=verdict_text(Outcome("failed", "not started"))),
        [pod(ended(143, 190), phase="Failed", deleted=185), pod(phase="Failed", node=None, deleted=185)],
        None,
    ),
}


@pytest.mark.parametrize("name", FAILED_ON)
def test_the_node_of_an_end_is_that_of_the_pod_that_failed(name: str) -> None:
    given, pods, failed_on = FAILED_ON[name]
    for order in (pods, pods[::-1]):
        found = view(given, order, node(), NOW)
        assert isinstance(found, Ended)
        assert found.node == failed_on


def test_a_pod_of_several_that_will_not_come_is_not_waited_for() -> None:
    for given in (job(true("Failed", "x"), parallelism=2), job(deleted=True, parallelism=2)):
        assert isinstance(view(given, [pod(ended(0))], node(), NOW), Ended)


@pytest.mark.parametrize("type", ["Failed", "FailureTarget"])
def test_a_job_that_will_have_no_pod_has_ended(type: str) -> None:
    found = view(job(true(type, "PodFailurePolicy", "said")), [], node(), NOW)
    assert found == Ended(Outcome("preempted", "PodFailurePolicy: said"), None, None, None)


def test_a_deleted_job_without_pods_has_ended() -> None:
    found = view(job(deleted=True), [], node(), NOW)
    assert found == Ended(Outcome("preempted", "its Job was deleted"), None, None, None)


def test_a_job_without_pods_waits_for_them() -> None:
    found = view(job({"type": "Failed", "status": "False"}), [], node(), NOW)
    assert isinstance(found, PendingJob)
    assert found.scheduled is False


def test_the_deadline_of_the_job_goes_before_what_its_pods_say() -> None:
    passed = job(true("Failed", "DeadlineExceeded"))
    found = view(passed, [pod(ended(143, 205), phase="Failed", deleted=200)], node(), NOW)
    assert isinstance(found, Ended)
    assert (found.outcome.kind, found.outcome.retry) == ("timeout", False)


@pytest.mark.parametrize(
    "pods", [[], [pod(ended(0, 205), phase="Succeeded", deleted=200)]], ids=["none", "one"]
)
def test_what_the_launcher_decided_before_goes_before_everything(pods: list[Object]) -> None:
    verdict = Outcome("failed", "not started after 900 s: no node", retry=True)
    found = view(job(deleted=True, verdict=verdict_text(verdict)), pods, node(), NOW)
    assert isinstance(found, Ended)
    assert found.outcome == verdict


@pytest.mark.parametrize("verdict", ["{", "[]", '{"kind": "failed", "more": 1}', "1"])
def test_a_verdict_that_somebody_spoilt_is_left_out(verdict: str) -> None:
    found = view(job(deleted=True, verdict=verdict), [], node(), NOW)
    assert isinstance(found, Ended)
    assert found.outcome.kind == "preempted"


def test_pods_without_their_job_are_waited_for() -> None:
    assert isinstance(view(GONE, [pod(UP)], node(), NOW), RunningJob)
    assert isinstance(view(GONE, [pod(ended(0))], node(), NOW), Ended)
