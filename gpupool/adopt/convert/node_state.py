"""How a node says that its GPUs are shared: by GPU Feature Discovery's labels, and by its capacity.

Labels of k8s-device-plugin v0.20.0 (docs/gpu-feature-discovery, internal/lm): `gpu.replicas` and
`gpu.sharing-strategy` (since v0.15.0, with MPS; before it there was time-slicing alone), the product's suffix
-SHARED; under the single MIG strategy the product's suffix -MIG-<profile>, with `gpu.count` as the number of
instances; under the mixed one a set of labels for each profile. A node may say nothing: GPU Feature Discovery
need not run there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupool.adopt.convert.device_plugin import RENAME, RENAMED
from gpupool.adopt.convert.values import as_whole
from gpupool.environment.catalog.models import GpuModel, mig_resource
from gpupool.environment.sharing import GPU_RESOURCE

PREFIX = "nvidia.com/"
PRODUCT, COUNT = f"{PREFIX}gpu.product", f"{PREFIX}gpu.count"
_REPLICAS, _STRATEGY = f"{PREFIX}gpu.replicas", f"{PREFIX}gpu.sharing-strategy"
_SHARED, PARTITIONED = "-SHARED", "-MIG-"
_INSTANCE = f"{PREFIX}mig-"
_WORKLOAD = f"{PREFIX}gpu.workload.config"
_DEPLOYED = (f"{PREFIX}gpu.deploy.operands", f"{PREFIX}gpu.deploy.device-plugin")
"""Labels by which somebody keeps the operator's operands from a node (gpu-operator v26.7.0,
controllers/state_manager.go)."""
_SHARED_FURTHER = "its MIG instances are shared, which gpupool does not support"
_SLICES = f"{GPU_RESOURCE}{RENAMED}"


@dataclass(frozen=True, slots=True)
class ReportedNode:
    """What a node says."""

    sharing: dict[str, Any] | None
    """As a pool has it; None where the node says nothing, or what can't be."""
    gpus: int
    """Physical ones."""
    problem: str = ""
    """Why no pool can be made of what it says."""
    assumed: str = ""
    """What was concluded, where the labels leave room."""
    sliced: bool = False
    """Whether its GPUs are shared, and nothing says how (then `problem` says so)."""
    single: bool = False
    """Whether pods ask for instances by the name of whole GPUs (the single strategy)."""


@dataclass(frozen=True, slots=True)
class _Node:
    labels: Mapping[str, str]
    capacity: Mapping[str, Any]
    gpu: GpuModel
    gpus: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gpus", self.number(COUNT) or 0)

    def number(self, label: str) -> int | None:
        return as_whole(self.labels.get(label, ""))

    def offered(self, *resources: str) -> int | None:
        """What the capacity has of these resources together; None where it has none of them."""
        counts = [as_whole(str(self.capacity[name])) for name in resources if name in self.capacity]
        return sum(count or 0 for count in counts) if counts else None


def product(labels: Mapping[str, str]) -> str:
    """The GPU's product name without what its sharing adds."""
    return labels.get(PRODUCT, "").partition(PARTITIONED)[0].removesuffix(_SHARED)


def of(labels: Mapping[str, str], capacity: Mapping[str, Any], gpu: GpuModel) -> ReportedNode:
    """What the node with these labels and this capacity says of its `gpu`s."""
    node = _Node(labels, capacity, gpu)
    if reason := _not_for_pods(node):
        return _unknown(node, reason)
    _, single, profile = labels.get(PRODUCT, "").partition(PARTITIONED)
    if single:
        return _single(node, profile)
    if instances := _instances(node):
        return _mixed(node, instances)
    return _replicated(node)


def _not_for_pods(node: _Node) -> str:
    """Why no pod gets a GPU of the node, or none as gpupool shares them; empty where nothing says so."""
    workload = node.labels.get(_WORKLOAD, "container")
    if workload != "container":
        return f"its label {_WORKLOAD} says {workload}: its GPUs are not for containers"
    off = next((label for label in _DEPLOYED if node.labels.get(label) == "false"), None)
    if off is not None:
        return f"its label {off} says false: no device plugin runs there"
    if any(name.startswith(_INSTANCE) and name.endswith(RENAMED) for name in node.capacity):
        return _SHARED_FURTHER
    return ""


def _single(node: _Node, profile: str) -> ReportedNode:
    """Instances of one profile, which the node counts as GPUs."""
    replicas = node.number(_REPLICAS) or 1
    name = profile.removesuffix(_SHARED)
    if name == "INVALID":
        return _unknown(node, "its product label says MIG-INVALID: its GPUs have different layouts")
    known = _profile(node.gpu, name)
    if known is None:
        return _unknown(node, f"the {node.gpu.title} has no MIG profile {name}")
    if replicas > 1 or profile != name:
        return _unknown(node, _SHARED_FURTHER)
    count = node.gpus
    gpus, rest = divmod(count, known[1])
    if rest or not gpus:
        why = f"{count} instances of {name} do not fill GPUs with {known[1]} each: its layout is unknown"
        return _unknown(node, why)
    assumed = f"{count} instances of {name} are {gpus} GPUs with {known[1]} each"
    return ReportedNode({"mode": "mig", "layout": {known[0]: known[1]}}, gpus, "", assumed, single=True)


def _instances(node: _Node) -> dict[str, int]:
    """Instances of the node by resource, under the mixed strategy: by labels, else by its capacity."""
    counts: dict[str, int] = {}
    for key in node.labels:
        if key.startswith(_INSTANCE) and key.endswith(".count"):
            counts[key.removesuffix(".count")] = node.number(key) or 0
    for key, value in node.capacity.items():
        if key.startswith(_INSTANCE) and not key.endswith(RENAMED):
            counts.setdefault(key, as_whole(str(value)) or 0)
    return {name: count for name, count in counts.items() if count}


def _mixed(node: _Node, instances: Mapping[str, int]) -> ReportedNode:
    if not node.gpus:
        return _unknown(node, f"it has MIG instances, but no label {COUNT} with the number of GPUs")
    layout: dict[str, int] = {}
    for resource, count in instances.items():
        known = _profile(node.gpu, resource.removeprefix(_INSTANCE))
        if known is None:
            return _unknown(node, f"the {node.gpu.title} has no MIG profile for {resource}")
        if (node.number(f"{resource}.replicas") or 1) > 1:
            return _unknown(node, _SHARED_FURTHER)
        offered = node.offered(resource)
        if offered is not None and offered != count:
            return _unknown(node, f"its label says {count} {resource}, but its capacity is {offered}")
        each, rest = divmod(count, node.gpus)
        if rest:
            return _unknown(node, f"{count} {resource} on {node.gpus} GPUs: its GPUs have different layouts")
        layout[known[0]] = each
    return ReportedNode({"mode": "mig", "layout": layout}, node.gpus)


def _replicated(node: _Node) -> ReportedNode:
    """Whole GPUs, or slices of them."""
    replicas, strategy = node.number(_REPLICAS), node.labels.get(_STRATEGY)
    suffix = node.labels.get(PRODUCT, "").endswith(_SHARED)
    gpus = node.gpus or 1
    offered = node.offered(GPU_RESOURCE, _SLICES)
    renamed = bool(node.offered(_SLICES))
    if replicas == 0:
        return _unknown(node, f"its label {_REPLICAS} says 0: its GPUs are in MIG mode and have no instances")
    if offered == 0:
        return _unknown(node, f"its capacity has 0 {GPU_RESOURCE}: no GPU pod can be scheduled there")
    if replicas is None:
        if strategy not in (None, "none"):
            return _unknown(node, f"its label says {strategy}, but no label has the number of slices")
        if suffix or renamed or (offered or 0) > gpus:
            why = "it has slices of GPUs, but no label says how they are shared"
            return ReportedNode(None, gpus, why, sliced=True)
        return ReportedNode({"mode": "exclusive"} if offered else None, gpus)
    if replicas == 1:
        if strategy not in (None, "none") or suffix or renamed:
            return _unknown(node, f"its label {_REPLICAS} says 1, but others say that its GPUs are shared")
        sharing: dict[str, Any] = {"mode": "exclusive"}
    elif strategy in (None, "time-slicing", "mps"):
        sharing = {"mode": strategy or "time-slicing", "replicas": replicas} | (RENAME if renamed else {})
    else:
        return _unknown(node, f"its labels say {replicas} slices of each GPU, shared by {strategy}")
    if offered and offered != gpus * replicas:
        why = f"its labels say {replicas} slices of {gpus} GPUs, but its capacity is {offered}"
        return _unknown(node, why)
    return ReportedNode(sharing, gpus)


def _unknown(node: _Node, problem: str) -> ReportedNode:
    return ReportedNode(None, node.gpus or 1, problem)


def _profile(gpu: GpuModel, spelled: str) -> tuple[str, int] | None:
    """(name, how many fit on one GPU) of the profile that a label or resource spells, with a full stop for a
    plus sign; None where the GPU has none."""
    for profile in gpu.mig.profiles if gpu.mig else ():
        for name in (profile.name, *profile.aliases):
            if spelled in (name, mig_resource(name).removeprefix(_INSTANCE)):
                return name, profile.max_count
    return None
