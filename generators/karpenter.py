"""The Karpenter controller on EKS: its Helm release, pinned, with the NodeOverlay gate on.

Pools, node classes and overlays are generated elsewhere; without the gate the overlays do nothing and
Karpenter starts one node per physical GPU that it believes is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from generators.manifest import HelmRelease
from gpupool.plan import Plan


def generate(plan: Plan) -> Iterator[HelmRelease]:
    karpenter = plan.karpenter
    if karpenter is None or not karpenter.install or plan.cluster.platform != "eks":
        return
    yield HelmRelease(
        name="karpenter",
        namespace="kube-system",
        chart="karpenter",
        repository="oci://public.ecr.aws/karpenter",
        version=karpenter.version,
        values={
            "settings": {
                "clusterName": plan.cluster.name,
                # Spot interruption notices come by this queue, named as Karpenter's CloudFormation does.
                "interruptionQueue": plan.cluster.name,
                "featureGates": {"nodeOverlay": True},
            }
        },
    )
