"""When a fresh object counts as ready: one function per kind, from the object alone.

Each answers None when the object is ready, otherwise what it still waits for. Kinds not named here are
ready once the server has taken them; NodePools and overlays become ready when their controllers
run, which may be later than `up`, so `infra.readiness` reports on them instead of waiting here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpupool.cluster.live_objects import condition

Live = Mapping[str, Any]


def waiting_for(live: Live) -> str | None:
    """What a live object still waits for; None when it is ready or its kind has no notion of it."""
    check = _CHECKS.get((live["apiVersion"], live["kind"]))
    return check(live) if check else None


def _deployment(live: Live) -> str | None:
    status, wanted = live.get("status", {}), live["spec"].get("replicas", 1)
    if status.get("observedGeneration", 0) < live["metadata"].get("generation", 1):
        return "the deployment controller has not seen it yet"
    failure = condition(live, "Progressing")
    if failure.get("reason") == "ProgressDeadlineExceeded":
        return str(failure.get("message"))
    ready = min(status.get("updatedReplicas", 0), status.get("availableReplicas", 0))
    return None if ready >= wanted else f"{ready} of {wanted} replicas available"


def _daemon_set(live: Live) -> str | None:
    status = live.get("status", {})
    if status.get("observedGeneration", 0) < live["metadata"].get("generation", 1):
        return "the daemon set controller has not seen it yet"
    wanted = status.get("desiredNumberScheduled", 0)
    ready = min(status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0))
    return None if ready >= wanted else f"{ready} of {wanted} pods available"


def _stateful_set(live: Live) -> str | None:
    status, wanted = live.get("status", {}), live["spec"].get("replicas", 1)
    ready = status.get("readyReplicas", 0)
    return None if ready >= wanted else f"{ready} of {wanted} replicas ready"


def _pod(live: Live) -> str | None:
    if live.get("status", {}).get("phase") == "Succeeded":
        return None
    ready = condition(live, "Ready")
    return None if ready.get("status") == "True" else str(ready.get("message") or "not ready")


def _definition(live: Live) -> str | None:
    return None if condition(live, "Established").get("status") == "True" else "not established"


_CHECKS: dict[tuple[str, str], Callable[[Live], str | None]] = {
    ("apps/v1", "Deployment"): _deployment,
    ("apps/v1", "DaemonSet"): _daemon_set,
    ("apps/v1", "StatefulSet"): _stateful_set,
    ("v1", "Pod"): _pod,
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): _definition,
}
