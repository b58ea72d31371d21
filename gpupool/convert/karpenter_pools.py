"""Karpenter's pools of every version -> fleets: what one Provisioner or NodePool says, in one form.

A fleet is not a pool yet: it may start machines with several GPUs, and two fleets, on-demand and spot, may
be one pool. `gpupool.convert.pools` makes pools of them. A pool without GPUs is listed as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpupool.convert import machines, node_labels
from gpupool.convert.account import Part
from gpupool.convert.karpenter_fields import VERSIONS, Fields
from gpupool.convert.machines import Selection
from gpupool.convert.quantities import duration, duration_or_never
from gpupool.convert.spec_words import fits
from gpupool.plan.model import POOL_LABEL

_CAPACITY_TYPE = "karpenter.sh/capacity-type"
_ZONE = "topology.kubernetes.io/zone"
_REGION = "topology.kubernetes.io/region"
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
NOT_GPU = "not a GPU pool: nothing in it asks for a GPU"
_KEEP = "keep it as it is, beside the pools of gpupool"


@dataclass(slots=True)
class Fleet:
    """One Provisioner or NodePool."""

    part: Part
    name: str
    fields: Fields
    selection: Selection
    pool: str
    """Name of the gpupool pool that its nodes are labelled with, empty where they are not."""
    steering: dict[str, Part]
    """The labels that choose the nodes' configurations."""
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] | None = None
    capacity_types: tuple[str, ...] = ("on-demand",)
    zones: list[str] = field(default_factory=list)
    region: str | None = None
    consolidate_after: str | None = None
    expire_after: str | None = None
    termination_grace_period: str | None = None
    limits: list[tuple[str, Part]] = field(default_factory=list)
    budgets: list[Part] = field(default_factory=list)
    warm: int | None = None
    """Nodes of a static pool (`spec.replicas`)."""
    class_name: str | None = None
    inline_class: Part | None = None


def read(part: Part) -> Fleet | None:
    """The fleet at `part`, a Provisioner or NodePool; None where it starts no GPUs, which is then listed."""
    fields = VERSIONS[(part.document.api_version, part.document.kind)]
    group = part.at(*fields.class_reference, "group")
    if group is not None and (provider := _OTHER_PROVIDERS.get(str(group.value))):
        part.left(
            f"its machines are {provider}, and gpupool writes EC2NodeClasses of Karpenter for AWS", _KEEP
        )
        return None
    requirements = part.at(*fields.requirements)
    selection = machines.select(list(requirements.each()) if requirements else [])
    labels = dict(inner.items()) if (inner := part.at(*fields.labels)) else {}
    limits = list(inner.items()) if (inner := part.at(*fields.limits)) else []
    taints = part.at(*fields.taints)
    if not _has_gpus(selection, labels, [key for key, _ in limits], taints):
        part.left(NOT_GPU, _KEEP)
        return None
    steering = {key: labels[key] for key in node_labels.STEERING if key in labels}
    pool = steering.get(POOL_LABEL)
    name = part.document.name
    fleet = Fleet(part, name, fields, selection, str(pool.value) if pool else "", steering)
    fleet.limits = limits
    own = fleet.pool or node_labels.pool_name(name)
    fleet.labels = node_labels.labels(list(labels.items()))
    fleet.taints = node_labels.taints(taints, own)
    _identity(fleet)
    _other_requirements(fleet)
    _disruption(fleet)
    _class(fleet)
    return fleet


def _has_gpus(selection: Selection, labels: dict[str, Part], limits: list[str], taints: Part | None) -> bool:
    if selection.refuses_gpus:
        return False
    keys = [key.value for taint in taints.each() if (key := taint.at("key"))] if taints else []
    hints = any(name in labels for name in _GPU_LABELS) or "nvidia.com/gpu" in keys
    return selection.asks_for_gpus or hints or any(key.startswith("nvidia.com/") for key in limits)


def _identity(fleet: Fleet) -> None:
    """What the object is called, and what Kubernetes and gpupool write on it."""
    part = fleet.part
    for key in ("apiVersion", "kind"):
        if inner := part.at(key):
            inner.used()
    part.text("metadata", "name")
    if startup := part.at(*fleet.fields.startup_taints):
        startup.left("gpupool sets no startup taints: Karpenter waits for a node's slices to appear")
    if annotations := part.at(*fleet.fields.annotations):
        for key, annotation in annotations.items():
            if key.startswith("karpenter.sh/"):
                annotation.of_cluster()


def _other_requirements(fleet: Fleet) -> None:
    """Requirements that are not about the machine: where, bought how, and labels of the user's own."""
    fleet.capacity_types = ("on-demand", "spot") if fleet.fields.spot_by_default else ("on-demand",)
    for key, part in fleet.selection.other.items():
        values = [item.value for item in listed.each()] if (listed := part.at("values")) else []
        exact = part.value.get("operator") == "In" if isinstance(part.value, dict) else False
        texts = [value for value in values if isinstance(value, str)]
        if key == _CAPACITY_TYPE and exact and texts:
            _capacity_types(fleet, part, texts)
        elif key == _ZONE and exact and texts:
            part.uses("key", "operator", "values")
            fleet.zones = list(dict.fromkeys(texts))
        elif key == _REGION and exact and len(texts) == 1:
            part.uses("key", "operator", "values")
            fleet.region = texts[0]
        elif exact and len(texts) == 1 and not node_labels.owned(key) and node_labels.taken(key, texts[0]):
            part.uses("key", "operator", "values")
            fleet.labels[key] = texts[0]
        else:
            part.left("gpupool has no such requirement", "name instance types and zones that satisfy it")


def _capacity_types(fleet: Fleet, part: Part, texts: list[str]) -> None:
    known = tuple(name for name in ("on-demand", "spot") if name in texts)
    if not known:
        part.left(
            "gpupool buys on-demand and spot capacity only; on-demand was written", "keep reservations apart"
        )
        fleet.capacity_types = ("on-demand",)
        return
    part.uses("key", "operator", "values")
    fleet.capacity_types = known
    for index, value in enumerate(texts):
        if value not in known and (item := part.at("values", index)):
            item.left(
                "gpupool buys on-demand and spot capacity only", "keep reserved capacity in a NodePool apart"
            )


def _disruption(fleet: Fleet) -> None:
    """When nodes go: once empty, once old, and how many at a time."""
    part, fields = fleet.part, fleet.fields
    fleet.budgets = list(inner.each()) if fields.budgets and (inner := part.at(*fields.budgets)) else []
    if fields.empty_seconds:
        empty = part.whole(*fields.empty_seconds)
        fleet.consolidate_after = None if empty is None else duration(empty)
        _old_consolidation(fleet, empty is not None)
    if fields.consolidate_after:
        after = part.take(duration_or_never, "a duration such as 10m, or Never", *fields.consolidate_after)
        fleet.consolidate_after = after
        if after is None:
            part.note("assumed", "gpupool's default of 10m was written", "", *fields.consolidate_after)
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
    path = fleet.fields.consolidation_enabled or ()
    enabled = fleet.part.at(*path)
    if enabled is not None and enabled.value is True:
        enabled.left("gpupool never moves running GPU jobs to save a node; only empty nodes go")
    elif enabled is not None and enabled.value is False:
        enabled.derived()
    if not when_empty and (enabled is None or enabled.value is not True):
        fleet.consolidate_after = "Never"
        fleet.part.note("assumed", "without a time for empty nodes they stay for ever: Never was written")


def _policy(fleet: Fleet, path: tuple[str, ...]) -> None:
    policy = fleet.part.at(*path)
    if policy is not None and not fleet.part.says("WhenEmpty", *path):
        policy.left("gpupool never moves running GPU jobs to save a node; only empty nodes go (WhenEmpty)")


def _class(fleet: Fleet) -> None:
    """Which node class the machines are made by."""
    reference = fleet.part.at(*fleet.fields.class_reference)
    if reference is not None:
        name = reference.at("name")
        fleet.class_name = name.value if name and isinstance(name.value, str) else None
        if fleet.class_name is None:
            reference.wrong("it names no node class", "write its name")
        else:
            reference.uses("name")
            for field, known in _CLASSES.items():
                if (inner := reference.at(field)) and inner.value in known:
                    inner.used()
                elif inner:
                    inner.left(
                        "gpupool's machines come from EC2NodeClasses", "name one of AWS's node classes"
                    )
    fleet.inline_class = fleet.part.at("spec", "provider")
