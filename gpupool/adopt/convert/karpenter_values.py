"""Helm values of Karpenter's controller -> the cluster's name and the section `karpenter`.

Chart karpenter of 1.14 (`settings`), and of the releases before 0.33 (`settings.aws`). What gpupool derives
is not carried over; everything else goes to `karpenter.values` as it is.
"""

from __future__ import annotations

from typing import Any

from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.draft import Draft
from gpupool.adopt.convert.spec_words import fits
from gpupool.environment.plan.helm_values import merged

_NAMES: tuple[tuple[str, ...], ...] = (("settings", "clusterName"), ("settings", "aws", "clusterName"))
_QUEUES: tuple[tuple[str, ...], ...] = (
    ("settings", "interruptionQueue"),
    ("settings", "aws", "interruptionQueueName"),
)
_OLD = ("settings", "aws")
_OVERLAYS = ("settings", "featureGates", "nodeOverlay")


def is_karpenter_values(data: Any) -> bool:
    """Whether this can be Helm values of Karpenter."""
    settings = data.get("settings") if isinstance(data, dict) and "kind" not in data else None
    known = {"clusterName", "interruptionQueue", "featureGates", "clusterEndpoint", "aws"}
    return isinstance(settings, dict) and bool(known & settings.keys())


def apply(part: Part, draft: Draft) -> None:
    """Put what the values at `part` say on `draft`."""
    for path in _NAMES:
        name = part.at(*path)
        if fits("name", name.value):
            name.used()
            draft.cluster_name = name.value
    if draft.platform == "static":
        part.mark_derived_if(True, *_OVERLAYS)
        part.rest_left("nodes of platform static exist already, so gpupool installs no Karpenter for them")
        return
    for path in _QUEUES:
        queue = part.text(*path)
        if queue:
            draft.karpenter["interruptionQueue"] = queue
    if not part.mark_derived_if(True, *_OVERLAYS):
        part.at(*_OVERLAYS).left("without NodeOverlay Karpenter counts physical GPUs, so gpupool enables it")
    part.at(*_OLD, "defaultInstanceProfile").left(
        "gpupool sets the nodes' IAM role and lets Karpenter create the profile",
        "set karpenter.nodeRole to the role of that profile",
    )
    for _, leaf in part.at(*_OLD).unmarked():
        leaf.left("Karpenter no longer has settings.aws", "see Karpenter's upgrade guide")
    if values := part.carry_over(but=_NAMES):
        draft.karpenter["values"] = merged(draft.karpenter.get("values", {}), values)
