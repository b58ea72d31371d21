"""A bundle: every object that one environment or folder amounts to, and, where there is one, its Plan.

It finds objects by kind and name and knows what exists without being in the bundle. It judges nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gpupool.environment.plan.model import POOL_LABEL, Plan
from gpupool.policy.rules.fields import at, items, labels, mapping, text
from vapcheck import WORKLOADS, Kinds, ObjectRef

EXTERNAL = "policies.gpupool.dev/external"
"""Annotation on any object of a bundle: what it needs that others make, as `Secret team-vision/token,
PriorityClass urgent`."""

_BUILTIN = frozenset(
    [("Namespace", "", name) for name in ("default", "kube-system", "kube-public", "kube-node-lease")]
    + [("ClusterRole", "", name) for name in ("admin", "cluster-admin", "edit", "view")]
)
"""What every cluster has (Kubernetes 1.36)."""
_BUILTIN_PREFIXES = {"PriorityClass": "system-", "ClusterRole": "system:", "Role": "system:"}
_IN_EVERY_NAMESPACE = {("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")}
_TEMPLATES = {
    "Pod": (),
    "PodTemplate": ("template",),
    # The groups of Kubernetes' own workloads have no dot.
    **{kind: tuple(paths[0].split(".")) for (group, kind), paths in WORKLOADS.items() if "." not in group},
}
"""Kinds that make pods, and where in them the pod is."""

Identity = tuple[str, str, str]
"""Kind, namespace (empty for cluster-scoped objects), name."""


@functools.cache
def _groups() -> Mapping[str, str]:
    """Groups of kinds, as others use their names too: Kyverno ClusterPolicy, Knative Service."""
    others = {"ClusterPolicy": "nvidia.com", "NodeOverlay": "karpenter.sh", "NodePool": "karpenter.sh"}
    return {row.kind: row.group for row in Kinds.builtin()} | others


@dataclass(frozen=True, slots=True, eq=False)
class BundleObject:
    """One Kubernetes object, as plain JSON values."""

    body: Mapping[str, Any]
    file: str = ""
    line: int = 0
    """First line of the object in `file`, from 1; 0 where it was never text."""
    patch: bool = False
    """True where only some fields of somebody else's object are ours."""

    @property
    def kind(self) -> str:
        return text(self.body, "kind")

    @property
    def group(self) -> str:
        """API group, empty for the core's."""
        return text(self.body, "apiVersion").rpartition("/")[0]

    @property
    def name(self) -> str:
        return text(self.body, "metadata", "name")

    @property
    def namespace(self) -> str:
        """The namespace that is written, empty where none is."""
        return text(self.body, "metadata", "namespace")

    @property
    def labels(self) -> Mapping[str, str]:
        return labels(self.body, "metadata", "labels")

    @property
    def identity(self) -> Identity:
        return (self.kind, self.namespace, self.name)

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(text(self.body, "apiVersion"), self.kind, self.namespace or None, self.name)

    def __str__(self) -> str:
        return str(self.ref)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedRelease:
    """A Helm release: what it installs is not in the bundle, its values are."""

    name: str
    namespace: str
    chart: str
    values: Mapping[str, Any]
    file: str = ""
    line: int = 0

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef("", "HelmRelease", self.namespace, self.name)

    def __str__(self) -> str:
        return str(self.ref)


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    """A pod of the bundle, or the one that a workload makes."""

    owner: BundleObject
    path: str
    """Where in the owner the pod's spec is, as `spec.template.spec`."""
    labels: Mapping[str, str]
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Nodes that the bundle makes, changes or means: of one NodePool, Node or planned pool."""

    source: BundleObject | None
    """None where only the Plan knows them: nodes that are found by a selector."""
    path: str
    """Where in the source their labels are."""
    labels: Mapping[str, str]
    taints: list[Any]

    @property
    def pool(self) -> str:
        """Value of gpupool.dev/pool, empty without one."""
        return self.labels.get(POOL_LABEL, "")

    def __str__(self) -> str:
        return str(self.source) if self.source else f"pool {self.pool}"


@dataclass(frozen=True, eq=False)
class ObjectSet:
    """Everything that one environment or folder amounts to."""

    environment: str
    """Name of the environment, or of the folder."""
    objects: tuple[BundleObject, ...]
    releases: tuple[JudgedRelease, ...] = ()
    plan: Plan | None = None
    """None for a folder of manifests: rules that need it are skipped."""
    external: frozenset[Identity] = field(default_factory=frozenset)
    """What exists without being in the bundle, besides what annotations and the Plan say."""

    @classmethod
    def of(
        cls,
        environment: str,
        manifests: Iterable[Mapping[str, Any]],
        *,
        patches: Iterable[Mapping[str, Any]] = (),
        releases: Iterable[JudgedRelease] = (),
        plan: Plan | None = None,
    ) -> ObjectSet:
        """A bundle of plain objects. A body without a kind that names a release and a chart, as rendered
        folders have them, is taken for that Helm release."""
        bodies = list(manifests)
        objects = [BundleObject(body) for body in bodies if not _is_release(body)]
        objects += [BundleObject(body, patch=True) for body in patches]
        found = [release_of(body) for body in bodies if _is_release(body)]
        return cls(environment, tuple(objects), (*releases, *found), plan)

    @cached_property
    def by_kind(self) -> Mapping[str, list[BundleObject]]:
        """The objects of each kind, in the bundle's order, without those of other groups' kinds."""
        result: dict[str, list[BundleObject]] = {}
        groups = _groups()
        for item in self.objects:
            if groups.get(item.kind, item.group) == item.group:
                result.setdefault(item.kind, []).append(item)
        return result

    def of_kind(self, *kinds: str) -> list[BundleObject]:
        """Objects of these kinds."""
        return [item for kind in kinds for item in self.by_kind.get(kind, ())]

    def by_namespace(self, kind: str) -> Mapping[str, list[BundleObject]]:
        """The objects of a kind, namespace by namespace."""
        result: dict[str, list[BundleObject]] = {}
        for item in self.of_kind(kind):
            result.setdefault(item.namespace, []).append(item)
        return result

    def find(self, kind: str, name: str, namespace: str = "") -> BundleObject | None:
        """The first object of that identity in the bundle."""
        return self._found.get((kind, namespace, name))

    @cached_property
    def _found(self) -> Mapping[Identity, BundleObject]:
        return {item.identity: item for item in reversed(self.objects)}

    @cached_property
    def pods(self) -> list[Pod]:
        """Every pod, those that workloads make included."""
        result = []
        for kind, template in _TEMPLATES.items():
            for item in self.of_kind(kind):
                body = at(item.body, *template)
                spec = mapping(body, "spec")
                result.append(
                    Pod(item, ".".join((*template, "spec")), labels(body, "metadata", "labels"), spec)
                )
        return result

    @cached_property
    def nodes(self) -> list[Nodes]:
        """All nodes that the bundle makes, changes or means."""
        found = []
        for kind, template in (("NodePool", ("spec", "template")), ("Node", ())):
            for item in self.of_kind(kind):
                body, path = at(item.body, *template), (*template, "metadata", "labels")
                taints = items(body, "spec", "taints")
                found.append(Nodes(item, ".".join(path), labels(item.body, *path), taints))
        for planned in self.plan.pools if self.plan else ():
            if planned.node_selector:
                taints = [taint.as_dict() for taint in planned.taints]
                found.append(Nodes(None, f"pool {planned.name}", planned.labels, taints))
        return found

    def exists(self, kind: str, name: str, namespace: str = "") -> bool:
        """Whether an object is in the bundle, in every cluster, or somebody else's by declaration."""
        if (kind, namespace, name) in self._there or (kind, name) in _IN_EVERY_NAMESPACE:
            return True
        prefix = _BUILTIN_PREFIXES.get(kind)
        return prefix is not None and name.startswith(prefix)

    def names(self, kind: str, namespace: str = "") -> list[str]:
        """Names of what is in the bundle or declared, sorted."""
        return self._names.get((kind, namespace), [])

    @cached_property
    def _names(self) -> Mapping[tuple[str, str], list[str]]:
        result: dict[tuple[str, str], list[str]] = {}
        for kind, namespace, name in sorted(self._there):
            result.setdefault((kind, namespace), []).append(name)
        return result

    @cached_property
    def _there(self) -> frozenset[Identity]:
        made = self._found.keys()
        declared = {identity for item in self.objects for identity in _declared(item)}
        planned = _of_plan(self.plan) if self.plan is not None else set()
        return frozenset(made | declared | planned) | self.external | _BUILTIN


def _is_release(body: Mapping[str, Any]) -> bool:
    return "kind" not in body and bool(text(body, "release")) and bool(text(body, "chart"))


def release_of(body: Mapping[str, Any], file: str = "", line: int = 0) -> JudgedRelease:
    """The Helm release of a rendered folder's `releases/<name>.yaml`."""
    return JudgedRelease(
        text(body, "release"),
        text(body, "namespace"),
        text(body, "chart"),
        mapping(body, "values"),
        file,
        line,
    )


def identities(written: str) -> list[Identity]:
    """Objects as people write them down: `Kind name` or `Kind namespace/name`, separated by commas."""
    result: list[Identity] = []
    for entry in written.split(","):
        kind, _, rest = entry.strip().partition(" ")
        namespace, _, name = rest.strip().rpartition("/")
        if kind and name:
            result.append((kind, namespace, name))
    return result


def _declared(item: BundleObject) -> list[Identity]:
    written = text(item.body, "metadata", "annotations", EXTERNAL)
    return identities(written) if written else []


def _of_plan(plan: Plan) -> set[Identity]:
    """What the environment file itself says that others make."""
    result: set[Identity] = set()
    for tenant in plan.tenants:
        for account in tenant.service_accounts:
            namespace, _, name = account.partition("/")
            result.add(("ServiceAccount", namespace, name))
    if not plan.gpu_operator.install and plan.cluster.platform != "local":
        result.add(("Namespace", "", plan.gpu_operator.namespace))
    return result
