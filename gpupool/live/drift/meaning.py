"""What a difference in an object of some kind means for users, and the layer that reports it.

Words only, by kind of object; whether there is a difference is found elsewhere.
"""

from __future__ import annotations

from typing import Any

from gpupool.generators.kinds import NODE_CLASSES
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import TENANT_LABEL
from gpupool.generators.policy_parameters import LIMITS, OWNERS, POOLS, TENANTS
from gpupool.live.objects.changes import MISSING, Step
from gpupool.live.objects.repartition_mark import MIG_PREFIX, PLUGIN_PREFIX

_KARPENTER = frozenset({"NodePool", "NodeOverlay", *NODE_CLASSES})
_POLICIES = frozenset({"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
_PARAMETERS = frozenset({POOLS, TENANTS, OWNERS, LIMITS})

_CONSEQUENCES = {
    (
        "NodeOverlay",
        "missing",
    ): "Karpenter counts physical GPUs and starts a node for each requested slice",
    ("NodePool", "missing"): "Karpenter starts no nodes for this pool",
    ("ResourceQuota", "missing"): "the tenant's quota is not enforced",
    ("NetworkPolicy", "missing"): "pods of other namespaces can connect to the tenant's",
    ("PriorityClass", "missing"): "pods that name it are rejected",
    ("ValidatingAdmissionPolicy", "missing"): "what it forbids is admitted",
    ("ValidatingAdmissionPolicyBinding", "missing"): "the policy exists but is not enforced",
    ("ValidatingAdmissionPolicy", "added"): "it may admit what the file's policy denies",
    ("ValidatingAdmissionPolicyBinding", "added"): "it may admit what the file's policy denies",
    (
        "ClusterPolicy",
        "missing",
    ): "the operator removes its operands from every node, so their GPUs are unavailable",
    ("ClusterPolicy", "extra"): "the operator follows the oldest ClusterPolicy and ignores the others",
    ("NodePool", "extra"): "Karpenter may start nodes that no pool in the file accounts for",
    ("Namespace", "extra"): "quotas and policies of the file do not apply there",
    ("NodePool", "changed"): "Karpenter starts, keeps or replaces nodes by it",
    ("NodeOverlay", "changed"): "Karpenter counts different slices than nodes will have",
}
"""(kind of object, kind of difference) -> why it matters."""
_STRICTNESS = ("Audit", "Warn", "Deny")


def layer_of(manifest: Manifest) -> str:
    """The layer that reports differences of this object."""
    if manifest.kind in _KARPENTER:
        return "karpenter"
    if manifest.kind in _POLICIES or (manifest.kind == "ConfigMap" and manifest.name in _PARAMETERS):
        return "policies"
    if TENANT_LABEL in manifest.labels:
        return "tenants"
    return "objects"


def consequence(
    manifest: Manifest, kind: str, path: tuple[Step, ...] = (), wanted: Any = None, found: Any = None
) -> str:
    """Why the difference matters, in a few words; empty where the fields explain themselves."""
    if kind == "changed" and manifest.kind == "ValidatingAdmissionPolicyBinding":
        return _binding(path, wanted, found)
    if kind == "changed" and manifest.kind == "ConfigMap":
        return _config_map(manifest)
    if kind == "changed" and manifest.kind == "ResourceQuota" and "hard" in path:
        return "the tenant may use more or less than the file grants"
    return _CONSEQUENCES.get((manifest.kind, kind), "")


def _config_map(manifest: Manifest) -> str:
    if manifest.name in _PARAMETERS:
        return "policies use it"
    if manifest.name.startswith(PLUGIN_PREFIX):
        return "device plugins that start now read it"
    if manifest.name.startswith(MIG_PREFIX):
        return "it applies to nodes that are partitioned from now on"
    return ""


def _binding(path: tuple[Step, ...], wanted: Any, found: Any) -> str:
    if path[-1:] == ("validationActions",):
        strictest = [_strictest(value) for value in (wanted, found)]
        if strictest[1] < strictest[0]:
            return "weakened: violations are no longer " + ("refused" if strictest[0] == 2 else "reported")
        return "it now does something else on a violation"
    return "the policy applies to other objects, or uses other parameters"


def _strictest(actions: Any) -> int:
    known = actions if isinstance(actions, list) and actions is not MISSING else []
    return max((_STRICTNESS.index(action) for action in known if action in _STRICTNESS), default=-1)
