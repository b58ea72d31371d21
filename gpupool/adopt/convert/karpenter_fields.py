"""Where each version of Karpenter's pool keeps its fields: the moves from Provisioner to NodePool v1.

Data only. Sources: karpenter-provider-aws designs/v1beta1-full-changelist.md; karpenter v1.14.1
designs/v1-api.md and pkg/apis/v1; v1alpha5 by the CRD of release 0.31.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VersionFields:
    """Paths in one version; None where the version has no such field."""

    labels: Path
    annotations: Path
    taints: Path
    startup_taints: Path
    requirements: Path
    limits: Path
    class_reference: Path
    spot_by_default: bool
    """Whether a pool without a capacity type may start spot nodes: until v1alpha5 on-demand was filled in."""
    expire_after: Path | None = None
    termination_grace_period: Path | None = None
    expire_seconds: Path | None = None
    empty_seconds: Path | None = None
    """Seconds after which an empty node goes; its presence is what later is consolidationPolicy WhenEmpty."""
    consolidation_enabled: Path = ()
    consolidation_policy: Path | None = None
    consolidate_after: Path | None = None
    budgets: Path | None = None
    kubelet: Path | None = None
    """Since v1 the node class has it."""


_TEMPLATE = ("spec", "template", "spec")
_METADATA = ("spec", "template", "metadata")

V1ALPHA5 = VersionFields(
    labels=("spec", "labels"),
    annotations=("spec", "annotations"),
    taints=("spec", "taints"),
    startup_taints=("spec", "startupTaints"),
    requirements=("spec", "requirements"),
    limits=("spec", "limits", "resources"),
    class_reference=("spec", "providerRef"),
    spot_by_default=False,
    expire_seconds=("spec", "ttlSecondsUntilExpired"),
    empty_seconds=("spec", "ttlSecondsAfterEmpty"),
    consolidation_enabled=("spec", "consolidation", "enabled"),
    kubelet=("spec", "kubeletConfiguration"),
)
V1BETA1 = VersionFields(
    labels=(*_METADATA, "labels"),
    annotations=(*_METADATA, "annotations"),
    taints=(*_TEMPLATE, "taints"),
    startup_taints=(*_TEMPLATE, "startupTaints"),
    requirements=(*_TEMPLATE, "requirements"),
    limits=("spec", "limits"),
    class_reference=(*_TEMPLATE, "nodeClassRef"),
    spot_by_default=True,
    expire_after=("spec", "disruption", "expireAfter"),
    consolidation_policy=("spec", "disruption", "consolidationPolicy"),
    consolidate_after=("spec", "disruption", "consolidateAfter"),
    budgets=("spec", "disruption", "budgets"),
    kubelet=(*_TEMPLATE, "kubelet"),
)
V1 = replace(
    V1BETA1,
    kubelet=None,
    expire_after=(*_TEMPLATE, "expireAfter"),
    termination_grace_period=(*_TEMPLATE, "terminationGracePeriod"),
)
VERSIONS: dict[tuple[str, str], VersionFields] = {
    ("karpenter.sh/v1alpha5", "Provisioner"): V1ALPHA5,
    ("karpenter.sh/v1beta1", "NodePool"): V1BETA1,
    ("karpenter.sh/v1", "NodePool"): V1,
}
"""Every kind of pool that can be read, by apiVersion and kind."""
OLD_LABELS = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Names that Kubernetes has replaced, and Karpenter still takes (pkg/apis/v1/labels.go)."""
