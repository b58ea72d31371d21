"""The status of a pod at each step of its life, as the kubelet writes it: bodies of strategic merge patches.

Pure. Conditions of others (PodScheduled, DisruptionTarget) stay, because the list is merged by type.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from gpupool.local.pods.command import ADDRESS

Object = dict[str, Any]
LOST = "ContainerStatusUnknown"


def now() -> str:
    """The time as metav1.Time has it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def waiting(pod: Object, reason: str, message: str = "") -> Object:
    """The process is not there yet."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        **_started(pod),
        "phase": "Pending",
        "conditions": _conditions(pod, "ContainersNotReady", Initialized=True),
        "containerStatuses": [_container(pod, state)],
    }


def running(pod: Object, pid: int, moment: str) -> Object:
    """The process runs since `moment`."""
    ready = {"Initialized": True, "PodReadyToStartContainers": True, "ContainersReady": True, "Ready": True}
    return {
        **_started(pod),
        "phase": "Running",
        "conditions": _conditions(pod, None, **ready),
        "containerStatuses": [_container(pod, {"running": {"startedAt": moment}}, pid)],
    }


def terminated(
    pod: Object, pid: int, state: Object, reason: str | None = None, message: str | None = None
) -> Object:
    """The process has ended: `state` as in ContainerStateTerminated, the reason for the whole pod."""
    phase = "Failed" if reason or state["exitCode"] else "Succeeded"
    ended = "PodFailed" if phase == "Failed" else "PodCompleted"
    return {
        **_started(pod),
        **_why(reason, message),
        "phase": phase,
        "conditions": _conditions(pod, ended, Initialized=True),
        "containerStatuses": [_container(pod, {"terminated": {"finishedAt": now(), **state}}, pid)],
    }


def failed(pod: Object, reason: str, message: str) -> Object:
    """There never was a process, and never will be."""
    return {
        **_started(pod),
        **_why(reason, message),
        "phase": "Failed",
        "conditions": _conditions(pod, "PodFailed"),
    }


def exit_state(code: int, started: str) -> Object:
    """ContainerStateTerminated of a process whose exit code or (negative) signal is given."""
    state: Object = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": started}
    return {**state, "exitCode": 128 - code, "signal": -code} if code < 0 else state


def _why(reason: str | None, message: str | None) -> Object:
    return {"reason": reason, "message": message} if reason else {}


def _started(pod: Object) -> Object:
    addresses = [{"ip": ADDRESS}]
    return {
        "startTime": pod["status"].get("startTime") or now(),
        "hostIP": ADDRESS,
        "hostIPs": addresses,
        "podIP": ADDRESS,
        "podIPs": addresses,
    }


def _container(pod: Object, state: Object, pid: int = 0) -> Object:
    container, runs = pod["spec"]["containers"][0], "running" in state
    identity = {"containerID": f"process://{pid}"} if pid else {}
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": runs,
        "started": runs,
        "restartCount": 0,
        "state": state,
        **identity,
    }


def _conditions(pod: Object, reason: str | None, **true: bool) -> list[Object]:
    """The kubelet's conditions: those named are true, the others false for `reason`."""
    before = {row["type"]: row for row in pod["status"].get("conditions") or []}
    rows = []
    for kind in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"):
        status = str(kind in true)
        same = before.get(kind, {}).get("status") == status
        rows.append(
            {
                "type": kind,
                "status": status,
                "reason": None if kind in true else reason,
                "lastTransitionTime": before[kind]["lastTransitionTime"] if same else now(),
            }
        )
    return rows
