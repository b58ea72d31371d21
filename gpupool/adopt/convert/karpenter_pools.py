"""Karpenter's pools of every version -> fleets: what one Provisioner or NodePool says, in one form.

A fleet is not a pool yet: it may start machines with several GPUs, and two fleets, on-demand and spot, may
be one pool. `gpupool.adopt.convert.pools` makes pools of them. A pool without GPUs is listed as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpupool.adopt.convert import machine_details, machines, node_labels, requirements
from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.draft import Values
from gpupool.adopt.convert.karpenter_fields import VERSIONS, VersionFields
from gpupool.adopt.convert.machines import Selection
from gpupool.adopt.convert.quantities import duration, duration_or_never
from gpupool.adopt.convert.requirements import KEEP, Bought
from gpupool.adopt.convert.spec_words import fits
from gpupool.environment.plan.model import POOL_LABEL
from gpupool.generators.node_pools import EFA

_GPU_LABELS = (node_labels.PLUGIN_LABEL, node_labels.MIG_LABEL)
_CLASSES = {
    "group": ("karpenter.k8s.aws", "karpenter.kwok.sh"),
    "kind": ("AWSNodeTemplate", "EC2NodeClass", "KWOKNodeClass"),
    "apiVersion": ("karpenter.k8s.aws/v1alpha1", "karpenter.k8s.aws/v1beta1", "karpenter.k8s.aws/v1"),
}
"""What a reference to a node class may say."""
_OTHER_PROVIDERS = {
    "eks.amazonaws.com": "those of EKS Auto Mode",
    "karpenter.azure.com": "Azure's",
    "karpenter.k8s.gcp": "Google's",
}
"""Groups of node classes that are not Karpenter's for AWS."""
NOT_GPU = "not a GPU pool: nothing in it requests a GPU"


@dataclass(slots=True)
class Fleet:
    """One Provisioner or NodePool."""

    part: Part
    name: str
    fields: VersionFields
    selection: Selection
    bought: Bought
    pool: str
    """Name of the gpupool pool that its nodes are labelled with, empty where they are not."""
    steering: dict[str, Part]
    """The labels that choose the nodes' configurations."""
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] | None = None
    consolidate_after: str | None = None
    expire_after: str | None = None
    termination_grace_period: str | None = None
    limits: list[tuple[str, Part]] = field(default_factory=list)
    budgets: list[Part] = field(default_factory=list)
    warm: int | None = None
    """Nodes of a static pool (`spec.replicas`)."""
    class_name: str = ""
    details: Values = field(default_factory=dict)
    """Fields of `nodes` that it has itself: startup taints and, of old versions, the kubelet's settings."""
    reservations: list[Values] = field(default_factory=list)
    """Those that it may use, as items of `nodes.reserved` without a count."""

    @property
    def inline_class(self) -> Part:
        """The fields of a node class that it has itself, if there."""
        return self.part.at("spec", "provider")


def read(part: Part) -> Fleet | None:
    """The fleet at `part`, a Provisioner or NodePool; None where it starts no GPUs, which is then listed."""
    fields = VERSIONS[(part.document.api_version, part.document.kind)]
    if provider := _OTHER_PROVIDERS.get(part.word(*fields.class_reference, "group")):
        part.left(
            f"its machines are {provider}, but gpupool supports only EC2NodeClasses of Karpenter for AWS",
            KEEP,
        )
        return None
    labels = dict(part.at(*fields.labels).items())
    required = {key: label for key, label in labels.items() if requirements.about_nodes(key)}
    labels = {key: label for key, label in labels.items() if key not in required}
    selection = machines.select(
        [
            *part.at(*fields.requirements).each(),
            *(requirements.of_label(key, label) for key, label in required.items()),
        ]
    )
    limits = list(part.at(*fields.limits).items())
    taints = part.at(*fields.taints)
    if not _has_gpus(selection, labels, [key for key, _ in limits], taints):
        part.left(NOT_GPU, KEEP)
        return None
    steering = {key: labels[key] for key in node_labels.STEERING if key in labels}
    pool = steering.get(POOL_LABEL)
    name = part.document.name
    bought = requirements.read(selection, fields.spot_by_default)
    fleet = Fleet(part, name, fields, selection, bought, str(pool.value) if pool else "", steering)
    fleet.limits = limits
    own = fleet.pool or node_labels.pool_name(name)
    fleet.labels = node_labels.labels(list(labels.items())) | bought.labels
    fleet.taints = node_labels.taints(taints, own)
    _identity(fleet)
    if not bought.left_out:
        _disruption(fleet)
    _class(fleet)
    return fleet


def _has_gpus(selection: Selection, labels: dict[str, Part], limits: list[str], taints: Part) -> bool:
    if selection.refuses_gpus:
        return False
    tainted = any(taint.word("key") == "nvidia.com/gpu" for taint in taints.each())
    hints = tainted or any(name in labels for name in _GPU_LABELS)
    return selection.asks_for_gpus or hints or any(key.startswith("nvidia.com/") for key in limits)


def _identity(fleet: Fleet) -> None:
    """What the object is called, and what Kubernetes and gpupool write on it."""
    part = fleet.part
    part.named()
    if taints := machine_details.startup_taints(part.at(*fleet.fields.startup_taints)):
        fleet.details["startupTaints"] = taints
    path = fleet.fields.kubelet
    if path and (kubelet := machine_details.of_kubelet(part.at(*path))):
        fleet.details["kubelet"] = kubelet
    if part.at("metadata", "annotations", EFA).mark_derived_if("true"):
        fleet.details["efa"] = True
    for key, annotation in part.at(*fleet.fields.annotations).items():
        if key.startswith("karpenter.sh/"):
            annotation.of_cluster()


def _disruption(fleet: Fleet) -> None:
    """When nodes go: once empty, once old, and how many at a time."""
    part, fields = fleet.part, fleet.fields
    if fields.budgets:
        fleet.budgets = list(part.at(*fields.budgets).each())
    if fields.empty_seconds:
        empty = part.whole(*fields.empty_seconds)
        fleet.consolidate_after = None if empty is None else duration(empty)
        _old_consolidation(fleet, empty is not None)
    if fields.consolidate_after:
        after = part.take(duration_or_never, "a duration such as 10m, or Never", *fields.consolidate_after)
        fleet.consolidate_after = after
        if after is None:
            default = "Never" if fleet.bought.only_reserved else "10m"
            part.note("assumed", f"gpupool's default of {default} was written", "", *fields.consolidate_after)
    if fields.consolidation_policy:
        _policy(fleet, fields.consolidation_policy)
    if fields.expire_seconds:
        age = part.whole(*fields.expire_seconds)
        fleet.expire_after = "Never" if age is None else duration(age)
    if fields.expire_after:
        fleet.expire_after = part.take(
            duration_or_never, "a duration such as 720h, or Never", *fields.expire_after
        )
        if fleet.expire_after is None:
            fleet.expire_after = "720h"
            part.note("assumed", "Karpenter's default of 720h was written", "", *fields.expire_after)
    if fields.termination_grace_period:
        fleet.termination_grace_period = part.take(
            lambda value: value if fits("duration", value) else None,
            "a duration such as 24h",
            *fields.termination_grace_period,
        )
    fleet.warm = part.whole("spec", "replicas")


def _old_consolidation(fleet: Fleet, when_empty: bool) -> None:
    enabled = fleet.part.at(*fleet.fields.consolidation_enabled)
    if enabled.value is True:
        enabled.left("gpupool never moves running GPU jobs to save a node; only empty nodes are removed")
    elif enabled.value is False:
        enabled.derived()
    if not when_empty and enabled.value is not True:
        fleet.consolidate_after = "Never"
        fleet.part.note("assumed", "without a time, empty nodes are never removed: Never was written")


def _policy(fleet: Fleet, path: tuple[str, ...]) -> None:
    policy = fleet.part.at(*path)
    if not policy.mark_derived_if("WhenEmpty"):
        policy.left(
            "gpupool never moves running GPU jobs to save a node; only empty nodes are removed (WhenEmpty)"
        )


def _class(fleet: Fleet) -> None:
    """Which node class the machines are made by."""
    reference = fleet.part.at(*fleet.fields.class_reference)
    fleet.class_name = reference.word("name")
    if not fleet.class_name:
        reference.wrong("it has no node class", "add its name")
        return
    reference.uses("name")
    for name, known in _CLASSES.items():
        inner = reference.at(name)
        if inner.value in known:
            inner.used()
        else:
            inner.left("gpupool starts machines from EC2NodeClasses", "use an EC2NodeClass")
