"""The ClusterPolicy of a GPU Operator that somebody has installed by hand."""

from __future__ import annotations

from typing import Any


def hand_made_policy() -> dict[str, Any]:
    """What the chart makes of its defaults, in short: no configurations, nothing shared."""
    on, off = {"enabled": True}, {"enabled": False}
    spec = {
        "operator": {"defaultRuntime": "containerd"},
        "daemonsets": {"tolerations": [{"operator": "Exists"}]},
        "driver": off,
        "toolkit": on,
        "devicePlugin": on,
        "dcgm": off,
        "dcgmExporter": {},
        "gfd": on,
        "nodeStatusExporter": off,
        "mig": {},
        "migManager": on,
    }
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": spec,
    }
