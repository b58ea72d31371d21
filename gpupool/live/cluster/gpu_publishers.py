"""Ways to the GPUs of a node that the environment's model does not have, from the objects that show them.

GPUs are handed out by name (`nvidia.com/gpu`, its slices), which is what quotas and policies count. A driver
for Dynamic Resource Allocation publishes the same GPUs a second time, and so does a second device plugin:
what pods get there is in nobody's quota. Judges objects and asks no server.

Names: DRA driver for NVIDIA GPUs 0.5.0; resource.k8s.io v1, Kubernetes 1.34.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.live.cluster.live_objects import is_gpu_slice

Object = Mapping[str, Any]

RESOURCE_SLICES = (
    ("resource.k8s.io/v1", "ResourceSlice"),
    ("resource.k8s.io/v1beta2", "ResourceSlice"),
    ("resource.k8s.io/v1beta1", "ResourceSlice"),
)
"""The kind in every version that a server may have it in, the newest first."""
_NVIDIA = re.compile(r"(.*\.)?nvidia\.com")
_GPU_WORD = re.compile(r"(.*[^a-z])?v?(gpu|cuda)([^a-z].*|s|mem|cores)?")
"""How other drivers and plugins name what they make of GPUs (gpu.example.com, volcano.sh/vgpu-number)."""
_NO_GPU = frozenset({"channel", "daemon"})
"""Types of devices of NVIDIA's driver that are no GPUs: those of ComputeDomains."""


@dataclass(frozen=True, slots=True, order=True)
class UnmodelledWay:
    """What publishes a node's GPUs beside the names that the environment counts."""

    node: str
    publisher: str
    """A DRA driver's name, or an extended resource."""
    devices: int
    """How many it offers on the node."""
    by_claim: bool
    """Whether pods get them by a ResourceClaim; else by an extended resource."""


def unmodelled_ways(nodes: Mapping[str, Object], slices: Iterable[Object]) -> tuple[UnmodelledWay, ...]:
    """Every such way on `nodes` (name -> Node), by node. `slices`: ResourceSlices, of any version."""
    counts: dict[tuple[str, str], int] = {}
    once = {row["metadata"]["name"]: row for row in slices}
    for row in once.values():
        spec = row.get("spec") or {}
        driver = str(spec.get("driver", ""))
        if not _names_gpus(driver):
            continue
        for device in spec.get("devices") or ():
            if _type(device) not in _NO_GPU:
                for node in _nodes_of(spec, device, nodes):
                    counts[node, driver] = counts.get((node, driver), 0) + 1
    ways = [UnmodelledWay(node, driver, count, True) for (node, driver), count in counts.items()]
    return tuple(sorted([*ways, *_by_resource(nodes)]))


def _by_resource(nodes: Mapping[str, Object]) -> Iterator[UnmodelledWay]:
    for name, node in nodes.items():
        for resource, count in ((node.get("status") or {}).get("allocatable") or {}).items():
            domain, _, own = resource.partition("/")
            gpus = bool(own) and (_NVIDIA.fullmatch(domain) or _GPU_WORD.fullmatch(own.lower()))
            if gpus and not is_gpu_slice(resource) and str(count).isdigit() and int(count):
                yield UnmodelledWay(name, resource, int(count), False)


def _names_gpus(driver: str) -> bool:
    return bool(_NVIDIA.fullmatch(driver) or _GPU_WORD.fullmatch(driver.lower()))


def _type(device: Object) -> str:
    """The attribute `type` of a device, which v1beta1 keeps one level deeper; empty where it has none."""
    attributes = device.get("attributes") or (device.get("basic") or {}).get("attributes") or {}
    value = attributes.get("type")
    return str(value.get("string", "")) if isinstance(value, dict) else ""


def _nodes_of(spec: Object, device: Object, nodes: Mapping[str, Object]) -> Iterator[str]:
    """Those of `nodes` from which a device can be used."""
    place = device if spec.get("perDeviceNodeSelection") else spec
    if place.get("allNodes"):
        yield from nodes
    elif place.get("nodeName"):
        yield from (name for name in (place["nodeName"],) if name in nodes)
    else:
        terms = (place.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
        yield from (name for name, node in nodes.items() if any(_matches(term, node) for term in terms))


def _matches(term: Object, node: Object) -> bool:
    """Whether all of a term holds of a node (Kubernetes documentation, NodeSelectorTerm)."""
    metadata = node["metadata"]
    rows = [(row, metadata.get("labels") or {}) for row in term.get("matchExpressions") or ()]
    rows += [(row, {"metadata.name": metadata["name"]}) for row in term.get("matchFields") or ()]
    return bool(rows) and all(_holds(row, values) for row, values in rows)


def _holds(row: Object, values: Mapping[str, str]) -> bool:
    value, listed = values.get(row["key"]), row.get("values") or ()
    verdicts = {
        "In": value is not None and value in listed,
        "NotIn": value not in listed,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    return verdicts.get(row["operator"], True)  # Gt and Lt: rather reported than missed
