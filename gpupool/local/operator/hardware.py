"""The GPUs that a node would have: from its instance type, or from annotations on a hand-made node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.catalog.models import CatalogError, GpuModel
from gpupool.local.operator import names


class HardwareError(ValueError):
    """The simulation's own annotations make no sense."""


@dataclass(frozen=True)
class Hardware:
    """The GPUs of one node; all alike, as in every instance type of the catalog."""

    model: GpuModel
    gpus: int
    memory_mib: int
    """Of one GPU."""
    machine: str


def of_node(node: Mapping[str, Any]) -> Hardware | None:
    """The node's GPUs, None for a node without. Raises HardwareError for invalid annotations."""
    meta = node["metadata"]
    annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    key = annotations.get(names.GPU_ANNOTATION)
    machine = labels.get(names.INSTANCE_TYPE_LABEL, "")
    if key is not None:
        return _annotated(key, annotations.get(names.GPUS_ANNOTATION, "1"), machine)
    model = load_catalog().owner(machine) if machine else None
    if model is None:
        return None
    kind = model.instance_type(machine)
    return Hardware(model, kind.gpus, kind.gpu_memory_mib, machine)


def _annotated(key: str, count: str, machine: str) -> Hardware:
    try:
        model = load_catalog()[key]
    except CatalogError as error:
        raise HardwareError(f"annotation {names.GPU_ANNOTATION}: {error}") from error
    if not count.isdigit() or not 1 <= int(count) <= 16:
        raise HardwareError(f"annotation {names.GPUS_ANNOTATION}: {count!r}; expected a number from 1 to 16")
    return Hardware(model, int(count), model.memory_mib, machine or "hand-made")
