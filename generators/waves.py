"""The order in which rendered files may be applied: the one place that maps a manifest to a wave.

Everything in a wave is there, and ready, before the next one begins; what an object needs is therefore in
a wave before its own, or earlier in the same one by `Manifest.key`. A test holds this to what `infra.apply`
waits for. Must not depend on an engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from generators.manifest import Manifest
from gpupool.plan.model import OPERATOR_NAMESPACE


@dataclass(frozen=True, slots=True)
class Wave:
    number: int
    """Lower goes first. Two digits, so that folders sort alike by name and by number."""
    name: str
    kinds: frozenset[str]

    def __str__(self) -> str:
        return f"{self.number}-{self.name}"


def _wave(number: int, name: str, *kinds: str) -> Wave:
    return Wave(number, name, frozenset(kinds))


OPERATORS = _wave(70, "operators", "ClusterPolicy")
"""Helm releases as well: with them come the definitions (CRDs) of all kinds behind this wave. And the
operator's configurations, so that Flux, which deletes what is no longer wanted at the end of each wave, drops
the old one only after the operator is pointed at the new one."""
WORKLOADS = _wave(95, "workloads", "Deployment", "CronJob")
"""And every kind that no other wave names. Nothing waits for them: our Deployments keep nodes warm, and a
cloud that has no such machine today is no reason to call the environment not applied."""

WAVES = (
    _wave(10, "namespaces", "Namespace"),
    _wave(
        20,
        "access",
        "PriorityClass",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ),
    # What judges goes before what is judged: a quota that grows with its pools would else be refused by the
    # old parameters, and nothing behind it, the new parameters among it, would ever be applied.
    _wave(30, "parameters", "ConfigMap"),
    _wave(40, "policies", "ValidatingAdmissionPolicy"),
    _wave(50, "enforcement", "ValidatingAdmissionPolicyBinding"),
    _wave(60, "bounds", "ResourceQuota", "LimitRange", "NetworkPolicy"),
    OPERATORS,
    _wave(80, "machines", "KWOKNodeClass", "EC2NodeClass", "NodeOverlay"),
    # Far behind the policies: a cloud that has no such machine today must not keep a policy from its cluster.
    _wave(90, "pools", "NodePool", "Node"),
    WORKLOADS,
)

_BY_KIND = {kind: wave for wave in WAVES for kind in wave.kinds}


def wave_of(manifest: Manifest) -> Wave:
    """The wave that `manifest` is applied in."""
    if manifest.kind == "ConfigMap" and manifest.namespace == OPERATOR_NAMESPACE:
        return OPERATORS
    return _BY_KIND.get(manifest.kind, WORKLOADS)


def by_wave(manifests: Iterable[Manifest]) -> dict[Wave, list[Manifest]]:
    """Every wave in order, the empty ones too, with its manifests in application order."""
    sorted_into: dict[Wave, list[Manifest]] = {wave: [] for wave in WAVES}
    for manifest in sorted(manifests, key=lambda manifest: manifest.key):
        sorted_into[wave_of(manifest)].append(manifest)
    return sorted_into
