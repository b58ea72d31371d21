"""How one pod ended: by itself, because somebody asked for it, or because the platform took it away. Pure.

A pod succeeded only if its containers ended with 0 before anybody asked to delete it and without
DisruptionTarget: SIGTERM and then exit 0 is no success. Times are of its kubelet. Sources: Kubernetes 1.36
documentation, pod lifecycle, pod conditions (DisruptionTarget), node shutdowns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from gpupool.live.cluster.live_objects import condition
from gpupool.queue.records import Outcome

Object = Mapping[str, Any]

TAKEN_AWAY = frozenset(
    {
        # Of a container's end: its kubelet came back and does not know what became of it.
        "ContainerStatusUnknown",
        # Of a pod: its node is lost, shuts down (in the words of kubelets of several releases), had a device
        # or a label taken from it after the pod was bound, or had to make room.
        *("NodeLost", "NodeShutdown", "Shutdown", "Terminated"),
        *("UnexpectedAdmissionError", "NodeAffinity", "Preempting", "Preempted"),
    }
)
"""Reasons by which the platform took a pod away, beside the condition DisruptionTarget. Others are failures;
of these, what never started counts as the platform's (`Outcome.platform_retries`)."""
_CLEANING = timedelta(minutes=5)
"""How long a kubelet may take to unmount what an ended pod had, before it deletes its object."""


def is_over(pod: Object) -> bool:
    """Whether none of the pod's containers runs or will. A node that is gone proves nothing: Kubernetes
    gives its pods a final phase when it is sure."""
    status = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed"):
        return True
    containers = status.get("containerStatuses") or []
    if containers and all("terminated" in container.get("state", {}) for container in containers):
        return True
    return deleting(pod) and not pod["spec"].get("nodeName")  # deleted before any kubelet had it


def outcome_of(pod: Object) -> Outcome:
    """How a pod ended of which `is_over` is true."""
    status = pod.get("status", {})
    states = [
        container.get("state", {}).get("terminated") for container in status.get("containerStatuses") or []
    ]
    ended = [state for state in states if state]
    worst = next((state for state in ended if state.get("exitCode")), ended[0] if ended else None)
    code = worst.get("exitCode") if worst else None
    disruption = condition(pod, "DisruptionTarget")
    if disruption.get("status") == "True":
        reason = f"{disruption.get('reason')}: {disruption.get('message') or 'its pod was disrupted'}"
        return Outcome("preempted", reason[:500], code)
    if deleting(pod) and not _ended_before_deletion(pod, ended):
        return Outcome("preempted", "its pod was deleted", code)
    for reason, message in ((status.get("reason"), status.get("message")), *map(_why, ended)):
        if reason in TAKEN_AWAY:
            return Outcome("preempted", f"{reason}: {message or 'its pod was taken away'}"[:500], code)
    if status.get("reason") == "DeadlineExceeded":
        return Outcome("timeout", status.get("message") or "its deadline has passed", code, retry=False)
    if status.get("reason") == "Evicted" and status.get("message"):
        # Over a limit of its own, as of local disk: what its node lacks is a disruption.
        return Outcome("failed", str(status["message"])[:500], code)
    if worst is None and status.get("phase") == "Succeeded":
        return Outcome("succeeded", None, 0)
    if worst is None:
        # Its kubelet refused it, and may refuse the next one: what takes a pod away is in TAKEN_AWAY, or sets
        # DisruptionTarget (Kubernetes documentation, Disruptions, since 1.26).
        refusal = status.get("message") or status.get("reason") or "its pod ended without a container's state"
        return Outcome("failed", refusal[:500])
    if code == 0:
        return Outcome("succeeded", None, 0)
    cause = worst.get("reason")
    named = f", {cause}" if cause and cause != "Error" else ""
    message = f": {worst['message']}" if worst.get("message") else ""
    return Outcome("failed", f"exit code {code}{named}{message}"[:500], code)


def _why(state: Object) -> tuple[str | None, str | None]:
    return state.get("reason"), state.get("message")


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


def started(pod: Object) -> datetime | None:
    """When the first container started."""
    times = []
    for container in pod.get("status", {}).get("containerStatuses") or []:
        state = container.get("state", {})
        times.append(time_of((state.get("running") or state.get("terminated") or {}).get("startedAt")))
    return min((at for at in times if at and at > datetime(1971, 1, 1, tzinfo=UTC)), default=None)


def finished(pod: Object) -> datetime | None:
    """When the last container ended."""
    times = [
        time_of((container.get("state", {}).get("terminated") or {}).get("finishedAt"))
        for container in pod.get("status", {}).get("containerStatuses") or []
    ]
    return max((at for at in times if at), default=None)


def ran(pod: Object) -> timedelta | None:
    """For how long, from start to end by its kubelet's clock, which counts whole seconds: what started and
    ended in one has run for up to that long. Of a pod whose end was not seen, until it was taken away."""
    begin, end = started(pod), finished(pod)
    if begin is None:
        return None
    if end is not None:
        return max(timedelta(seconds=1), end - begin)
    stated = condition(pod, "DisruptionTarget").get("lastTransitionTime")
    taken = [time_of(text) for text in (stated, pod["metadata"].get("deletionTimestamp"))]
    return min((at - begin for at in taken if at is not None and at > begin), default=None)


def time_of(text: str | None) -> datetime | None:
    """An RFC 3339 time of the API server."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def deleting(thing: Object) -> bool:
    """Whether somebody asked for its end."""
    return "deletionTimestamp" in thing["metadata"]
