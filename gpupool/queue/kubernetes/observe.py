"""What a Job and its pods say of an attempt: not started and why, running, or ended and how. Pure.

The pods decide. A Job's own conditions count where it has no pod. An attempt succeeded only if its containers
ended with 0 before anybody asked to delete its pods and without DisruptionTarget: SIGTERM and then exit 0 is
no success. Nothing has ended while a container may still run. Sources: Kubernetes 1.36 documentation, pod
lifecycle, pod conditions (DisruptionTarget), Jobs (pod failure policy). It must not ask the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpupool.cluster.live_objects import condition
from gpupool.queue.kubernetes.warnings import cause
from gpupool.queue.records import Outcome, Reason, Waiting

Object = Mapping[str, Any]

VERDICT = "gpupool.dev/verdict"
"""Annotation of a Job that the launcher stops, with how its attempt ends: another leader finds it there."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
UNREACHABLE = "node.kubernetes.io/unreachable"
GONE: Object = {"metadata": {"deletionTimestamp": ""}}
"""Stands for a Job of which only pods are left."""
_HOPELESS_IMAGES = ("InvalidImageName", "ErrImageNeverPull")
"""Reasons of a waiting container that time does not cure."""
_IMAGES = (*_HOPELESS_IMAGES, "ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable")

_UNSEEN = "the scheduler has not looked at it yet"

_CLEANING = timedelta(minutes=5)
"""How long a kubelet may take to unmount what an ended pod had, before it deletes its object."""


@dataclass(frozen=True, slots=True)
class Pending:
    """No container has started, or of several pods not every one."""

    waiting: Waiting
    scheduled: bool
    """Whether each pod has a node."""
    hopeless: bool = False
    """Whether waiting longer can't help."""
    about: Object | None = None
    """The pod without a node, or the Job without its pods: the cluster's events say why."""


@dataclass(frozen=True, slots=True)
class Running:
    since: datetime
    """When the first container started."""
    node: str
    """That of the first pod."""
    node_since: datetime | None = None
    """When the last pod got its node."""
    waiting: Waiting | None = None
    """What is wrong, where something is."""
    failed: Outcome | None = None
    """One of several pods has failed: the others must end too."""


@dataclass(frozen=True, slots=True)
class Ended:
    outcome: Outcome
    started: datetime | None
    """None: no container ever ran."""
    at: datetime
    node: str | None
    """Where it ended so."""


View = Pending | Running | Ended


def view(job: Object, pods: Sequence[Object], nodes: Mapping[str, Object], now: datetime) -> View:
    """The attempt whose Job this is. `nodes`: the cluster's nodes by name."""
    if not pods:
        return _without_pods(job, now)
    wanted = _wanted(job)
    starts = [at for pod in pods if (at := started(pod))]
    node = next((pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")), None)
    over = [pod for pod in pods if is_over(pod)]
    verdict = verdict_of(job)
    if len(over) == len(pods) and (len(pods) >= wanted or _deleting(job) or _failed(job)):
        # Times have whole seconds: what started and ended in one has run for up to that long.
        ends = [_finished(pod) or now for pod in pods] + [at + timedelta(seconds=1) for at in starts]
        decisive = _decisive(pods)
        outcome = verdict or _outcome(job, decisive)
        return Ended(outcome, min(starts, default=None), max(ends), decisive["spec"].get("nodeName"))
    bad = [pod for pod in over if _pod_outcome(pod).kind != "succeeded"]
    whole = wanted == 1 or (len(pods) >= wanted and all(started(pod) or is_over(pod) for pod in pods))
    if starts and node and (whole or bad):
        failed = _outcome(job, _decisive(bad)) if bad and not _deleting(job) else None
        return Running(min(starts), node, _scheduled(pods), _trouble(pods, nodes, now), failed)
    return _pending(job, pods, nodes, now)


def is_over(pod: Object) -> bool:
    """Whether none of the pod's containers runs or will. A node that is gone proves nothing: Kubernetes
    gives its pods a final phase when it is sure."""
    status = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed"):
        return True
    containers = status.get("containerStatuses") or []
    if containers and all("terminated" in one.get("state", {}) for one in containers):
        return True
    return _deleting(pod) and not pod["spec"].get("nodeName")  # deleted before any kubelet had it


def verdict_of(job: Object) -> Outcome | None:
    """What the launcher wrote when it stopped the Job."""
    text = (job["metadata"].get("annotations") or {}).get(VERDICT)
    try:
        return Outcome(**json.loads(text)) if text else None
    except (ValueError, TypeError):
        return None


def verdict_text(outcome: Outcome) -> str:
    """The annotation's value."""
    return json.dumps({"kind": outcome.kind, "reason": outcome.reason, "retry": outcome.retry})


def time_of(text: str | None) -> datetime | None:
    """An RFC 3339 time of the API server."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def _without_pods(job: Object, now: datetime) -> View:
    if _deleting(job) or _failed(job):
        stated = _failed(job)
        asked = f"{stated.get('reason')}: {stated.get('message')}" if stated else "its Job was deleted"
        return Ended(verdict_of(job) or Outcome("preempted", asked), None, now, None)
    return Pending(Waiting(Reason.STARTING, "its pod is not created yet"), False, about=job)


def _pending(job: Object, pods: Sequence[Object], nodes: Mapping[str, Object], now: datetime) -> View:
    trouble = _trouble(pods, nodes, now)
    if trouble is not None:
        return Pending(trouble, True)
    missing = _wanted(job) - len(pods)
    if missing > 0:
        said = f"not created yet: {missing} of its {_wanted(job)} pods"
        return Pending(Waiting(Reason.STARTING, said), False, about=job)
    for pod in pods:
        if not pod["spec"].get("nodeName"):
            said = cause(condition(pod, "PodScheduled").get("message") or _UNSEEN)
            waiting = Waiting(Reason.NODE, f"no node for its pod: {said}"[:500])
            return Pending(waiting, False, about=pod)
    for pod in pods:
        for container in pod.get("status", {}).get("containerStatuses") or []:
            state = container.get("state", {}).get("waiting") or {}
            reason = state.get("reason") or ""
            if reason in _IMAGES or "Error" in reason or "BackOff" in reason:
                kind = Reason.IMAGE if reason in _IMAGES else Reason.STARTING
                detail = f"{reason}: {state.get('message') or container.get('image')}"[:500]
                return Pending(Waiting(kind, detail), True, reason in _HOPELESS_IMAGES)
    name = next((pod for pod in pods if not started(pod)), pods[0])["spec"]["nodeName"]
    return Pending(Waiting(Reason.STARTING, f"its container starts on {name}"), True)


def _trouble(pods: Sequence[Object], nodes: Mapping[str, Object], now: datetime) -> Waiting | None:
    """What keeps pods from ending or answering."""
    for pod in pods:
        name = pod["spec"].get("nodeName")
        if not name or name not in nodes or is_over(pod):
            continue
        if _tainted(nodes[name], UNREACHABLE):
            return Waiting(
                Reason.NODE_UNREACHABLE,
                f"node {name} does not answer; nothing starts elsewhere until it is back, deleted, or has "
                f"the taint {OUT_OF_SERVICE}",
            )
        asked = time_of(pod["metadata"].get("deletionTimestamp"))
        if asked is not None and now > asked + timedelta(seconds=10):
            return Waiting(
                Reason.ENDING, f"pod {pod['metadata']['name']} is to end since {asked:%H:%M:%S} UTC"
            )
    return None


def _outcome(job: Object, pod: Object) -> Outcome:
    """Of the pod that decides. A deadline of the Job goes before."""
    if _failed(job).get("reason") == "DeadlineExceeded":
        return Outcome("timeout", "the deadline of its Job has passed", retry=False)
    return _pod_outcome(pod)


def _decisive(pods: Sequence[Object]) -> Object:
    """The pod that says how an attempt ended: one that failed by itself, or was disrupted, explains more than
    those that were stopped because of it; of these, one that had not started more than those that had."""

    def rank(pod: Object) -> tuple[bool, bool, bool, bool, str]:
        kind, disrupted = _pod_outcome(pod).kind, bool(condition(pod, "DisruptionTarget"))
        stopped = kind == "preempted"
        return kind == "succeeded", stopped, not disrupted, bool(started(pod)), str(_finished(pod))

    return min(pods, key=rank)


def _pod_outcome(pod: Object) -> Outcome:
    status = pod.get("status", {})
    states = [one.get("state", {}).get("terminated") for one in status.get("containerStatuses") or []]
    ended = [state for state in states if state]
    worst = next((state for state in ended if state.get("exitCode")), ended[0] if ended else None)
    code = worst.get("exitCode") if worst else None
    disruption = condition(pod, "DisruptionTarget")
    if disruption.get("status") == "True":
        said = f"{disruption.get('reason')}: {disruption.get('message') or 'its pod was disrupted'}"
        return Outcome("preempted", said[:500], code)
    if _deleting(pod) and not _ended_before_deletion(pod, ended):
        return Outcome("preempted", "its pod was deleted", code)
    if status.get("reason") == "DeadlineExceeded":
        return Outcome("timeout", status.get("message") or "its deadline has passed", code, retry=False)
    if status.get("reason") == "Evicted" and status.get("message"):
        # Over a limit of its own, as of local disk: what its node lacks is a disruption.
        return Outcome("failed", str(status["message"])[:500], code)
    if worst is None and status.get("phase") == "Succeeded":
        return Outcome("succeeded", None, 0)
    if worst is None:
        # Its kubelet refused it, as it would the next one: what takes a pod away sets DisruptionTarget
        # (Kubernetes documentation, Disruptions, since 1.26).
        said = status.get("message") or status.get("reason") or "its pod ended without a container's state"
        return Outcome("failed", said[:500])
    if code == 0:
        return Outcome("succeeded", None, 0)
    cause = worst.get("reason")
    named = f", {cause}" if cause and cause != "Error" else ""
    message = f": {worst['message']}" if worst.get("message") else ""
    return Outcome("failed", f"exit code {code}{named}{message}"[:500], code)


def _ended_before_deletion(pod: Object, ended: Sequence[Object]) -> bool:
    """Times have whole seconds: in the same second it counts as stopped, and at worst it runs again. A grace
    that is used up says when the pod was deleted last, which its kubelet does once it has ended, and not when
    first (k8s.io/apiserver 0.36, rest.BeforeDelete): only an end long before was its own."""
    metadata = pod["metadata"]
    grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    cleaning = _CLEANING if grace <= timedelta(seconds=1) else timedelta()
    until = time_of(metadata.get("deletionTimestamp"))
    times = [time_of(state.get("finishedAt")) for state in ended]
    if until is None or not times or len(ended) < len(pod["spec"].get("containers") or ()):
        return False
    return all(at is not None and at < until - grace - cleaning for at in times)


def _scheduled(pods: Sequence[Object]) -> datetime | None:
    """When the last of the pods got its node."""
    times = [time_of(condition(pod, "PodScheduled").get("lastTransitionTime")) for pod in pods]
    return max((at for at in times if at), default=None)


def started(pod: Object) -> datetime | None:
    """When the first container started."""
    times = []
    for container in pod.get("status", {}).get("containerStatuses") or []:
        state = container.get("state", {})
        times.append(time_of((state.get("running") or state.get("terminated") or {}).get("startedAt")))
    return min((at for at in times if at and at > datetime(1971, 1, 1, tzinfo=UTC)), default=None)


def _finished(pod: Object) -> datetime | None:
    """When the last container ended."""
    times = [
        time_of((one.get("state", {}).get("terminated") or {}).get("finishedAt"))
        for one in pod.get("status", {}).get("containerStatuses") or []
    ]
    return max((at for at in times if at), default=None)


def _wanted(job: Object) -> int:
    """How many pods the Job has."""
    return int(job.get("spec", {}).get("parallelism") or 1)


def _failed(job: Object) -> Object:
    """The condition that the Job will have no further pod."""
    for type in ("Failed", "FailureTarget"):
        stated = condition(job, type)
        if stated.get("status") == "True":
            return stated
    return {}


def _deleting(thing: Object) -> bool:
    return "deletionTimestamp" in thing["metadata"]


def _tainted(node: Object, key: str) -> bool:
    return any(taint.get("key") == key for taint in node.get("spec", {}).get("taints") or ())
