"""Helm values of Karpenter's controller -> the cluster's name and the section `karpenter`.

Chart karpenter of 1.14 (`settings`), and of the releases before 0.33 (`settings.aws`). What gpupool derives
is not carried over; everything else goes to `karpenter.values` as it is.
"""

from __future__ import annotations

from typing import Any

from gpupool.convert.account import Part
from gpupool.convert.draft import Draft
from gpupool.convert.spec_words import fits
from gpupool.convert.values import is_clear

_NAMES: tuple[tuple[str, ...], ...] = (("settings", "clusterName"), ("settings", "aws", "clusterName"))
_QUEUES: tuple[tuple[str, ...], ...] = (
    ("settings", "interruptionQueue"),
    ("settings", "aws", "interruptionQueueName"),
)
_OLD = ("settings", "aws")
_UNCLEAR = "readers of YAML disagree about what it means"


def is_karpenter_values(data: Any) -> bool:
    """Whether this can be Helm values of Karpenter."""
    settings = data.get("settings") if isinstance(data, dict) and "kind" not in data else None
    known = {"clusterName", "interruptionQueue", "featureGates", "clusterEndpoint", "aws"}
    return isinstance(settings, dict) and bool(known & settings.keys())


def settle(part: Part, draft: Draft) -> None:
    """Put what the values at `part` say on `draft`."""
    for place in _NAMES:
        name = part.at(*place)
        if fits("name", name.value):
            name.used()
            draft.cluster_name = name.value
    for place in _QUEUES:
        queue = part.text(*place)
        if queue:
            draft.karpenter["interruptionQueue"] = queue
    part.says(True, "settings", "featureGates", "nodeOverlay")
    part.at(*_OLD, "defaultInstanceProfile").left(
        "gpupool names the nodes' IAM role and lets Karpenter make the profile",
        "write the role of that profile to karpenter.nodeRole",
    )
    values: dict[str, Any] = {}
    for path, leaf in part.unmarked():
        if path[:2] == _OLD:
            leaf.left(
                "Karpenter has no settings.aws any more",
                "see what happened to it in Karpenter's upgrade guide",
            )
        elif path == ("settings", "featureGates", "nodeOverlay"):
            leaf.left("without NodeOverlay Karpenter counts physical GPUs, so gpupool switches it on")
        elif not is_clear(leaf.value):
            leaf.left(_UNCLEAR, "put it in quotes, or write true or false")
        elif path not in _NAMES:
            leaf.used()
            put(values, path, leaf.value)
    if values:
        draft.karpenter["values"] = values


def put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set the field at `path` in nested mappings."""
    for key in path[:-1]:
        values = values.setdefault(key, {})
    values[path[-1]] = value
