"""What the API server's own audit log says of pods (tests/cluster/audit-policy.yaml)."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from gpupool.local.control_plane import ControlPlane


def pods(plane: ControlPlane, namespaces: Collection[str]) -> list[dict[str, Any]]:
    """Each pod after each write that succeeded, in the order of resource versions, in which the writes took
    effect; simultaneous requests come to the log in any order."""
    text = plane.layout.log("audit").read_text(encoding="utf-8")
    whole_lines = text.rpartition("\n")[0].splitlines()
    found = [
        event["responseObject"]
        for event in map(json.loads, whole_lines)
        if event["objectRef"]["namespace"] in namespaces
        and event["responseStatus"]["code"] < 300
        and "dryRun" not in event["requestURI"]
    ]
    return sorted(found, key=lambda pod: int(pod["metadata"]["resourceVersion"]))
