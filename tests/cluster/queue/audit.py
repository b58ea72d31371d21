"""What the API server's own audit log says of pods and nodes (tests/cluster/audit-policy.yaml)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from gpupool.local.control_plane import ControlPlane


def pods(plane: ControlPlane, namespaces: Collection[str]) -> list[dict[str, Any]]:
    """Each pod after each write that succeeded, in the order of resource versions, in which the writes took
    effect; simultaneous requests come to the log in any order."""
    found = [pod for pod in _written(plane, "pods") if pod["metadata"]["namespace"] in namespaces]
    return sorted(found, key=lambda pod: int(pod["metadata"]["resourceVersion"]))


def nodes(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    """Each node that there has ever been, as it was made, by its name; also those that are gone."""
    return {node["metadata"]["name"]: node for node in _written(plane, "nodes")}


def _written(plane: ControlPlane, resource: str) -> Iterator[dict[str, Any]]:
    text = plane.layout.log("audit").read_text(encoding="utf-8")
    whole_lines = text.rpartition("\n")[0].splitlines()
    for event in map(json.loads, whole_lines):
        done = event["responseStatus"]["code"] < 300 and "dryRun" not in event["requestURI"]
        if done and event["objectRef"]["resource"] == resource:
            yield event["responseObject"]
