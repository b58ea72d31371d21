"""What a cluster's platform gives: whether Karpenter starts nodes there, and whose operator shares GPUs.

The one table of it. What a pool is does not depend on the platform alone: pools of nodes that exist may
stand beside those that Karpenter starts.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.environment.spec import environment as spec


@dataclass(frozen=True, slots=True)
class Platform:
    karpenter: bool
    """Whether Karpenter can start nodes."""
    group: str
    """How a group of nodes is given labels and taints: {labels} and {taints} in the words of its tool."""
    group_label: str | None = None
    """Label by which the cloud says of which group a node is; None where nothing does."""
    operator: bool = True
    """Whether the GPU Operator shares GPUs; else the cloud does, as its node pools say."""
    taint: tuple[str, str, str] | None = None
    """(key, value, effect) that the cloud puts on nodes with GPUs."""


_ANY = "labels {labels}; taints {taints}"
PLATFORMS = {
    "local": Platform(karpenter=True, group=_ANY),
    "eks": Platform(
        karpenter=True,
        group="eksctl: managedNodeGroups[] labels: {labels}; taints: {taints}",
        group_label="eks.amazonaws.com/nodegroup",
    ),
    "static": Platform(karpenter=False, group=_ANY),
    "aks": Platform(
        karpenter=False,
        group="az aks nodepool update --labels {labels} --node-taints {taints}",
        group_label="kubernetes.azure.com/agentpool",
    ),
    "gke": Platform(
        karpenter=False,
        operator=False,
        taint=("nvidia.com/gpu", "present", "NoSchedule"),
        group="gcloud container node-pools update --node-labels={labels} --node-taints={taints}",
        group_label="cloud.google.com/gke-nodepool",
    ),
}


def has_existing_nodes(platform: str, nodes: spec.Nodes) -> bool:
    """Whether the pool is of nodes that exist already."""
    return not PLATFORMS[platform].karpenter or bool(nodes.names or nodes.selector)
