"""What the operator reads off a Node object, and what it would have to change in it. Pure, no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpupool.local.operator import names, policy
from gpupool.local.operator.policy import Policy
from gpupool.local.operator.state import OperandMemory

Object = dict[str, Any]

PLUGIN_RESOURCE = re.compile(r"nvidia\.com/(gpu(\.shared)?|mig-.+)")
"""Resources that only the device plugin registers; the kubelet keeps them at zero once it is gone."""


_OPERANDS = (
    *("driver", "container-toolkit", "device-plugin", "gpu-feature-discovery", "dcgm", "dcgm-exporter"),
    *("node-status-exporter", "operator-validator"),
)
"""Operands that the operator lets onto every node with GPUs (gpu-operator, controllers/state_manager.go)."""


def operator_labels(labels: Mapping[str, str], mig_capable: bool) -> dict[str, str | None]:
    """What the operator itself says of a node with GPUs: that it has some, and which operands may go there.
    A value that somebody has set stays; None where a label goes."""
    here: dict[str, str | None] = {names.PRESENT_LABEL: "true"}
    if labels.get(names.OPT_OUT_LABEL) == "false":
        ours = {key for key in labels if key.startswith(names.DEPLOY_PREFIX)} - {names.OPT_OUT_LABEL}
        return here | dict.fromkeys(ours)
    operands = [names.DEPLOY_PREFIX + name for name in (*_OPERANDS, *["mig-manager"] * mig_capable)]
    return here | {key: labels.get(key, "true") for key in operands}


def operands_run(node: Object, settings: Policy, memory: OperandMemory) -> bool:
    """Whether the operator's DaemonSets have pods on the node."""
    if (node["metadata"].get("labels") or {}).get(names.OPT_OUT_LABEL) == "false":
        return False
    taints = node["spec"].get("taints") or []
    return policy.tolerated(taints, settings.tolerations, bool(memory.plugin_loaded)) is None


def status_patch(node: Object, resources: Mapping[str, int]) -> dict[str, dict[str, str]]:
    """What has to change in capacity and allocatable; resources that are gone stay, at zero."""
    patch = {}
    for field in ("capacity", "allocatable"):
        have = (node.get("status") or {}).get(field) or {}
        wanted = {key: "0" for key in have if PLUGIN_RESOURCE.fullmatch(key)}
        wanted |= {key: str(count) for key, count in resources.items()}
        changed = {key: value for key, value in wanted.items() if have.get(key) != value}
        if changed:
            patch[field] = changed
    return patch


def relevant(node: Object) -> tuple[Any, ...]:
    """The parts of a node that can change what its operands do."""
    meta, status = node["metadata"], node.get("status") or {}
    return (
        meta.get("labels"),
        meta.get("annotations"),
        node["spec"].get("taints"),
        status.get("capacity"),
        status.get("allocatable"),
        is_ready(node),
    )


def is_ready(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)
