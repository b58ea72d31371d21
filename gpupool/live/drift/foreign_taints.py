"""Taints on a pool's nodes that are neither the pool's nor put there by what runs the node.

Jobs of the pool do not tolerate them, so the node takes no new ones, as if it were cordoned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.findings import Category
from gpupool.live.cluster.live_objects import offered
from gpupool.live.drift import repair
from gpupool.live.drift.drift import Drift
from gpupool.live.drift.pool_nodes import PoolNode

_KNOWN = (
    "node.kubernetes.io/",
    "node-role.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "karpenter.sh/",
    "karpenter.k8s.aws/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "eks.amazonaws.com/",
    "ebs.csi.aws.com/",
    "efs.csi.aws.com/",
    "fsx.csi.aws.com/",
    "aws-node-termination-handler/",
    "cloud.google.com/",
    "components.gke.io/",
    "kubernetes.azure.com/",
    "node.cilium.io/",
    "gpupool.dev/",
    "nvidia.com/gpu",
)
"""Prefixes of well-known keys: Kubernetes' own (well-known labels, annotations and taints),
Karpenter's and the cluster autoscaler's, those of clouds and of drivers that remove their taint once they run
(their installation guides), and the one for GPUs (tolerated by pods that request one)."""


def foreign_taints(row: PoolNode) -> Iterator[Drift]:
    """Taints of the node that keep jobs off and have no known owner."""
    own = {(taint.key, taint.effect) for taint in row.pool.taints} | set(_of_claim(row))
    serves = row.machine is None or offered(row.node) == dict(row.machine.slices)
    for taint in (row.node.get("spec") or {}).get("taints") or ():
        key, effect, value = taint["key"], taint["effect"], taint.get("value", "")
        if effect == "PreferNoSchedule" or (key, effect) in own or key.startswith(_KNOWN):
            continue
        if effect == "NoExecute" and not serves:
            continue  # It has evicted the operator's pods too, and the slices layer reports that.
        text = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
        yield Drift(
            layer="nodes",
            code="foreign-taint",
            object=f"Node {row.name}",
            path="spec.taints",
            found=taint,
            what=f"it has the taint {text}, which the pool does not: the pool's jobs can't run there"
            f" (pool {row.pool.name})",
            remediation=repair.untaint(row.name, key, effect),
            category=Category.warning,
        )


def _of_claim(row: PoolNode) -> Iterator[tuple[str, str]]:
    """Taints with which Karpenter started the node."""
    spec: Any = (row.claim or {}).get("spec") or {}
    for taint in (*(spec.get("taints") or ()), *(spec.get("startupTaints") or ())):
        yield taint["key"], taint["effect"]
