"""The machines that Karpenter's KWOK provider may start, written from the GPU catalog.

They carry physical GPU counts: what sharing makes of them is for NodeOverlays (in Karpenter's
simulation) and for the simulated GPU Operator (on the node) to say, as on a real cluster. Offerings carry
the labels that the AWS provider puts on its types, so that NodePools written for EKS select them.
"""

from __future__ import annotations

from typing import Any

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.catalog.models import GpuModel, InstanceType

ZONES = ("local-a", "local-b")
RESERVED_ZONE = "local-a"
"""A reservation is of one zone; and Karpenter looks at every offering again and again."""
NOMINAL_USD_PER_GPU_HOUR = 10.0
"""Used where no price is published: high enough that a priced type of the same size wins."""
NOMINAL_SPOT_RATIO = 0.5
"""Stands in where the catalog has no typical spot price."""
_PODS_PER_NODE = "110"
_DISK = "500Gi"

_AWS = "karpenter.k8s.aws/instance-"


def karpenter_instance_types() -> list[dict[str, Any]]:
    """The list that INSTANCE_TYPES_FILE_PATH takes: every catalog type that Karpenter can start."""
    rows: dict[str, dict[str, Any]] = {}
    for model in load_catalog().models.values():
        for machine in model.instance_types:
            if machine.karpenter:
                rows.setdefault(machine.name, _row(model, machine))
    return [rows[name] for name in sorted(rows)]


def _row(model: GpuModel, machine: InstanceType) -> dict[str, Any]:
    return {
        "name": machine.name,
        "architecture": machine.arch,
        "operatingSystems": ["linux"],
        "resources": {
            "cpu": str(machine.vcpus),
            "memory": f"{round(machine.memory_gib * 1024)}Mi",
            "ephemeral-storage": _DISK,
            "pods": _PODS_PER_NODE,
            "nvidia.com/gpu": str(machine.gpus),
        },
        "offerings": [
            {
                "Price": price,
                "Available": True,
                "Requirements": [
                    _is("karpenter.sh/capacity-type", capacity_type),
                    _is("topology.kubernetes.io/zone", zone),
                    *(_is(key, value) for key, value in aws_labels(model, machine).items()),
                ],
            }
            for zone in ZONES
            for capacity_type, price in prices(machine).items()
            if capacity_type != "reserved" or zone == RESERVED_ZONE
        ],
    }


def prices(machine: InstanceType) -> dict[str, float]:
    """USD per hour of the whole machine by capacity type; nominal where the catalog has none."""
    demand = machine.usd_per_hour
    if demand is None:
        demand = NOMINAL_USD_PER_GPU_HOUR * machine.gpus
    spot = machine.spot_usd_per_hour
    return {
        "on-demand": demand,
        "spot": spot if spot is not None else demand * NOMINAL_SPOT_RATIO,
        # As the AWS provider prices what is paid already (karpenter-provider-aws v1.14.1, offering.go).
        "reserved": demand / 10_000_000,
    }


def aws_labels(model: GpuModel, machine: InstanceType) -> dict[str, str]:
    """The labels of the type (karpenter-provider-aws v1.14.1, reference/instance-types.md).

    On AWS they belong to the type; here they can only be put on its offerings. So a NodePool can select
    by them, but a NodeOverlay can't: it must name node.kubernetes.io/instance-type.
    """
    family, _, size = machine.name.partition(".")
    labels = {
        f"{_AWS}family": family,
        f"{_AWS}size": size or family,
        f"{_AWS}category": family[:1],
        f"{_AWS}cpu": str(machine.vcpus),
        f"{_AWS}memory": str(round(machine.memory_gib * 1024)),
        f"{_AWS}gpu-manufacturer": "nvidia",
        f"{_AWS}gpu-count": str(machine.gpus),
        f"{_AWS}gpu-memory": str(machine.gpu_memory_mib),
    }
    if model.karpenter_gpu_name:
        labels[f"{_AWS}gpu-name"] = model.karpenter_gpu_name
    return labels


def _is(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [value]}
