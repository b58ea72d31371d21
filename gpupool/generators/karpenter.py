"""The Karpenter controller on EKS: its Helm release, pinned, with the NodeOverlay gate on.

Pools, node classes and overlays are generated elsewhere; without the gate the overlays do nothing and
Karpenter starts one node per physical GPU that it believes is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.environment.plan.helm_values import merged
from gpupool.environment.plan.model import Plan
from gpupool.generators.manifest import HelmRelease

REPOSITORY = "oci://public.ecr.aws/karpenter"
"""Karpenter's chart registry."""


def generate(plan: Plan) -> Iterator[HelmRelease]:
    karpenter = plan.karpenter
    if karpenter is None or not karpenter.install or plan.cluster.platform != "eks":
        return
    settings: dict[str, Any] = {"clusterName": plan.cluster.name, "featureGates": {"nodeOverlay": True}}
    if karpenter.interruption_queue:
        # The controller does not start when the queue is not there, so there is no default.
        settings["interruptionQueue"] = karpenter.interruption_queue
    yield HelmRelease(
        name="karpenter",
        namespace="kube-system",
        chart="karpenter",
        repository=REPOSITORY,
        version=karpenter.version,
        values=merged({"settings": settings}, karpenter.values),
    )
