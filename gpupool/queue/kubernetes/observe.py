"""What a Job and its pods say of an attempt: not started and why, running, or ended and how. Pure.

The pods decide (`pod_ends`). A Job's own conditions count where it has no pod. An attempt succeeded if one
pod of each index of its Job did: the Job controller makes another one where it did not hear that the first is
there, and what becomes of that does not matter. Nothing has ended while a container may still run. Sources:
Kubernetes 1.36 documentation, pod lifecycle, Jobs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpupool.live.cluster.live_objects import condition
from gpupool.queue.kubernetes.job_manifest import INDEX
from gpupool.queue.kubernetes.pod_ends import (
    Object,
    deleting,
    finished,
    is_over,
    outcome_of,
    ran,
    started,
    time_of,
)
from gpupool.queue.kubernetes.warnings import cause
from gpupool.queue.records import Outcome, Waiting, WaitReason

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


@dataclass(frozen=True, slots=True)
class PendingJob:
    """No container has started, or of several pods not every one."""

    waiting: Waiting
    scheduled: bool
    """Whether each pod has a node."""
    hopeless: bool = False
    """Whether waiting longer can't help."""
    about: Object | None = None
    """The pod without a node, or the Job without its pods: the cluster's events say why."""


@dataclass(frozen=True, slots=True)
class RunningJob:
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
    ran: timedelta | None
    """For how long, by the clock of a kubelet; None where none says."""
    node: str | None
    """Where it ended so."""


View = PendingJob | RunningJob | Ended


def view(job: Object, pods: Sequence[Object], nodes: Mapping[str, Object], now: datetime) -> View:
    """The attempt whose Job this is. `nodes`: the cluster's nodes by name."""
    if not pods:
        return _without_pods(job)
    wanted = _wanted(job)
    starts = [at for pod in pods if (at := started(pod))]
    node = next((pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")), None)
    indexes = _by_index(pods, wanted)
    bad = [index for index in indexes if not _good(index) and all(map(is_over, index))]
    no_more = len(indexes) >= wanted or deleting(job) or _failed(job) or _complete(job)
    if no_more and all(map(is_over, pods)):
        outcome, where = _end(job, indexes, wanted)
        times = [time for pod in pods if (time := ran(pod)) is not None]
        return Ended(outcome, min(starts, default=None), max(times, default=None), where)
    there = [index for index in indexes if any(started(pod) or is_over(pod) for pod in index)]
    whole = wanted == 1 or wanted <= len(indexes) == len(there)
    if starts and node and (whole or bad):
        failed = None
        if bad and not deleting(job):
            failed = _outcome(job, _decisive([pod for index in bad for pod in index]))
        return RunningJob(min(starts), node, _scheduled(pods), _trouble(pods, nodes, now), failed)
    return _pending(job, pods, nodes, now)


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


def _by_index(pods: Sequence[Object], wanted: int) -> list[list[Object]]:
    """The pods of each index of the Job. What has no index, of a Job of several, is one of its own."""
    indexes: dict[str, list[Object]] = {}
    for number, pod in enumerate(pods):
        index = (pod["metadata"].get("annotations") or {}).get(INDEX, f"no {number}")
        indexes.setdefault("0" if wanted == 1 else index, []).append(pod)
    return list(indexes.values())


def _good(index: Sequence[Object]) -> bool:
    return any(is_over(pod) and outcome_of(pod).kind == "succeeded" for pod in index)


def _end(job: Object, indexes: Sequence[Sequence[Object]], wanted: int) -> tuple[Outcome, str | None]:
    """How an attempt ended all of whose pods are over, and where."""
    good = sum(map(_good, indexes))
    rest = [pod for index in indexes if not _good(index) for pod in index]
    # What made a Job complete may be gone; a pod that exited with 0 and did not succeed was asked to end.
    stopped = any(outcome_of(pod).exit_code == 0 for pod in rest)
    decisive = _decisive(rest or [pod for index in indexes for pod in index])
    node = decisive["spec"].get("nodeName")
    if good >= wanted or (_complete(job) and not stopped):
        return Outcome("succeeded", None, 0), node
    if not rest:  # those of other indexes will not come
        return _never(job), node
    return verdict_of(job) or _outcome(job, decisive), node


def _never(job: Object) -> Outcome:
    """How an attempt ended that will have no further pod."""
    stated = _failed(job)
    asked = f"{stated.get('reason')}: {stated.get('message')}" if stated else "its Job was deleted"
    return verdict_of(job) or Outcome("preempted", asked)


def _without_pods(job: Object) -> View:
    if _complete(job):
        return Ended(Outcome("succeeded", None, 0), None, None, None)
    if deleting(job) or _failed(job):
        return Ended(_never(job), None, None, None)
    return PendingJob(Waiting(WaitReason.STARTING, "its pod is not created yet"), False, about=job)


def _pending(job: Object, pods: Sequence[Object], nodes: Mapping[str, Object], now: datetime) -> View:
    trouble = _trouble(pods, nodes, now)
    if trouble is not None:
        return PendingJob(trouble, True)
    missing = _wanted(job) - len(pods)
    if missing > 0:
        said = f"{missing} of its {_wanted(job)} pods {'is' if missing == 1 else 'are'} not created yet"
        return PendingJob(Waiting(WaitReason.STARTING, said), False, about=job)
    for pod in pods:
        if not pod["spec"].get("nodeName"):
            said = cause(condition(pod, "PodScheduled").get("message") or _UNSEEN)
            waiting = Waiting(WaitReason.NODE, f"no node for its pod: {said}"[:500])
            return PendingJob(waiting, False, about=pod)
    for pod in pods:
        for container in pod.get("status", {}).get("containerStatuses") or []:
            state = container.get("state", {}).get("waiting") or {}
            reason = state.get("reason") or ""
            if reason in _IMAGES or "Error" in reason or "BackOff" in reason:
                kind = WaitReason.IMAGE if reason in _IMAGES else WaitReason.STARTING
                detail = f"{reason}: {state.get('message') or container.get('image')}"[:500]
                return PendingJob(Waiting(kind, detail), True, reason in _HOPELESS_IMAGES)
    name = next((pod for pod in pods if not started(pod)), pods[0])["spec"]["nodeName"]
    return PendingJob(Waiting(WaitReason.STARTING, f"its container is starting on {name}"), True)


def _trouble(pods: Sequence[Object], nodes: Mapping[str, Object], now: datetime) -> Waiting | None:
    """What keeps pods from ending or answering."""
    for pod in pods:
        name = pod["spec"].get("nodeName")
        if not name or name not in nodes or is_over(pod):
            continue
        if _tainted(nodes[name], UNREACHABLE):
            return Waiting(
                WaitReason.NODE_UNREACHABLE,
                f"node {name} is unreachable; no other attempt starts until it is back, deleted, or has "
                f"the taint {OUT_OF_SERVICE}",
            )
        moment = time_of(pod["metadata"].get("deletionTimestamp"))
        if moment is not None and now > moment + timedelta(seconds=10):
            return Waiting(
                WaitReason.TERMINATING,
                f"pod {pod['metadata']['name']} has been terminating since {moment:%H:%M:%S} UTC",
            )
    return None


def _outcome(job: Object, pod: Object) -> Outcome:
    """Of the pod that decides. A deadline of the Job goes before."""
    if _failed(job).get("reason") == "DeadlineExceeded":
        return Outcome("timeout", "the deadline of its Job has passed", retry=False)
    return outcome_of(pod)


def _decisive(pods: Sequence[Object]) -> Object:
    """The pod that says how an attempt ended: one that failed by itself, or was disrupted, explains more than
    those that were stopped because of it; of these, one that had not started more than those that had."""

    def rank(pod: Object) -> tuple[bool, bool, bool, bool, str]:
        kind, disrupted = outcome_of(pod).kind, bool(condition(pod, "DisruptionTarget"))
        stopped = kind == "preempted"
        return kind == "succeeded", stopped, not disrupted, bool(started(pod)), str(finished(pod))

    return min(pods, key=rank)


def _scheduled(pods: Sequence[Object]) -> datetime | None:
    """When the last of the pods got its node."""
    times = [time_of(condition(pod, "PodScheduled").get("lastTransitionTime")) for pod in pods]
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


def _complete(job: Object) -> bool:
    return condition(job, "Complete").get("status") == "True"


def _tainted(node: Object, key: str) -> bool:
    return any(taint.get("key") == key for taint in node.get("spec", {}).get("taints") or ())
