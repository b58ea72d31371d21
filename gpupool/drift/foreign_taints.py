"""Taints on a pool's nodes that are neither the pool's nor put there by what runs the node.

Jobs of the pool do not tolerate them, so the node takes no new ones, as if it were cordoned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.drift import repair
from gpupool.drift.drift import Drift, Level
from gpupool.drift.operator_view import offered
from gpupool.drift.pool_nodes import PoolNode

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
"""Beginnings of keys that are no stranger's: Kubernetes' own (well-known labels, annotations and taints),
Karpenter's and the cluster autoscaler's, those of clouds and of drivers that take theirs away once they run
(their installation guides), and the one that asks for GPUs (tolerated by whoever asks for one)."""


def foreign_taints(row: PoolNode) -> Iterator[Drift]:
    """Taints of the node that keep jobs off and are nobody's that is known."""
    own = {(taint.key, taint.effect) for taint in row.pool.taints} | set(_of_claim(row))
    serves = row.machine is None or offered(row.node) == dict(row.machine.slices)
    for taint in (row.node.get("spec") or {}).get("taints") or ():
        key, effect, value = taint["key"], taint["effect"], taint.get("value", "")
        if effect == "PreferNoSchedule" or (key, effect) in own or key.startswith(_KNOWN):
            continue
        if effect == "NoExecute" and not serves:
            continue  # It has driven the operator's pods off too, and the slices' layer tells so.
        text = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
        yield Drift(
            layer="nodes",
            kind="foreign-taint",
            object=f"Node {row.name}",
            path="spec.taints",
            found=taint,
            reason=f"it has the taint {text}, which the pool does not: jobs of the pool are kept off"
            f" (pool {row.pool.name})",
            repair=repair.untaint(row.name, key, effect),
            level=Level.warning,
        )


def _of_claim(row: PoolNode) -> Iterator[tuple[str, str]]:
    """Taints with which Karpenter started the node."""
    spec: Any = (row.claim or {}).get("spec") or {}
    for taint in (*(spec.get("taints") or ()), *(spec.get("startupTaints") or ())):
        yield taint["key"], taint["effect"]
