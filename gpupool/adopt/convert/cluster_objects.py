"""Objects that only a running cluster has: nodes that exist already, namespaces with quotas, priorities, and
what gpupool itself has left there. Sorted here by what they are for; read by `static_nodes`, `tenants` and
`policies_in_force`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpupool.adopt.convert.account import Part
from gpupool.environment.plan.model import MANAGED_BY, SYSTEM_NAMESPACE
from gpupool.environment.spec.environment import OPERATOR_NAMESPACE

TENANT_LABEL = "gpupool.dev/tenant"
_KINDS = (
    *("Node", "Namespace", "ResourceQuota", "PriorityClass", "Deployment", "RoleBinding", "NetworkPolicy"),
    *("ValidatingAdmissionPolicyBinding", "CronJob"),
)


@dataclass(slots=True)
class ClusterObjects:
    """Parts by kind, each a whole object."""

    by_kind: dict[str, list[Part]] = field(default_factory=dict)
    parameters: dict[str, Part] = field(default_factory=dict)
    """gpupool's own ConfigMaps of what policies judge by, by name."""
    operator_namespace: str = OPERATOR_NAMESPACE
    """Where the GPU Operator runs, or is to run."""

    def take(self, part: Part) -> bool:
        """Add the object if it is read here; return whether it was."""
        document = part.document
        if document.kind == "ConfigMap" and document.namespace == SYSTEM_NAMESPACE and ours(part):
            self.parameters[document.name] = part
            part.derived()
            return True
        if document.kind not in _KINDS:
            return False
        self.by_kind.setdefault(document.kind, []).append(part)
        return True

    def all(self, kind: str) -> list[Part]:
        """All objects of a kind."""
        return self.by_kind.get(kind, [])

    def in_namespace(self, kind: str, namespace: str) -> Iterator[Part]:
        """The objects of a kind in a namespace."""
        return (part for part in self.all(kind) if part.document.namespace == namespace)

    @property
    def nodes(self) -> list[Part]:
        return self.all("Node")

    @property
    def gpupool_owns_operator_namespace(self) -> bool:
        """Whether the operator's namespace carries gpupool's label, as it does where gpupool installs the
        operator."""
        name = self.operator_namespace
        return any(part.document.name == name and ours(part) for part in self.all("Namespace"))

    def regions(self) -> list[str]:
        """Regions that nodes say they are in."""
        labels = [node.at("metadata", "labels", "topology.kubernetes.io/region") for node in self.nodes]
        return [str(label.value) for label in labels if label]

    def parameter(self, name: str, key: str) -> str:
        """What gpupool's ConfigMap `name` says under `key`; empty where it says nothing."""
        part = self.parameters.get(name)
        return part.word("data", key) if part else ""


def list_as_foreign(part: Part, why: str, remediation: str = "") -> None:
    """List an object that gpupool did not make, if it comes from a file: somebody gave it to be converted.
    Those of a live cluster are too many to list, and count as the cluster's."""
    if part.document.source is None:
        part.of_cluster()
    else:
        part.left(why, remediation)


def ours(part: Part) -> bool:
    """Whether gpupool has made the object, by its label."""
    return part.word("metadata", "labels", MANAGED_BY) == "gpupool"
