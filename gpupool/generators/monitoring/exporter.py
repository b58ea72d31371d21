"""Settings of the DCGM exporter: which fields it reads, how often, and whether it names pods of shared GPUs.

Facts about fields are in `fields.yaml`; this is their only reader. It says nothing about where the exporter
runs (`gpupool.generators.monitoring.objects`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from gpupool.environment.plan.model import Plan, Pool
from gpupool.environment.sharing import SHARED_RESOURCE
from gpupool.environment.spec.field_types import duration_seconds

FIELDS_MAP = "gpupool-dcgm"
"""Beginning of the name of the ConfigMap with the fields."""
FILE = "dcgm-metrics.csv"
"""Key of the ConfigMap: the operator mounts a file of this name (gpu-operator v26.7.0, dcgmExporter)."""


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: Literal["gauge", "counter"]
    of: Literal["instance", "gpu"]
    """Whether MIG instances have values of their own; else each repeats the whole GPU's."""
    help: str
    full: bool = False
    """Only with `monitoring.gpuMetrics: full`."""
    profiling: bool = False
    """Only on GPUs that DCGM can profile."""


def runs(plan: Plan) -> bool:
    """Whether the cluster has an exporter with our fields: the GPU Operator's, unless it is switched off."""
    settings = plan.gpu_operator.values.get("dcgmExporter")
    return plan.uses_gpu_operator and not (isinstance(settings, Mapping) and settings.get("enabled") is False)


@functools.cache
def fields() -> tuple[Field, ...]:
    """Every field that may be read."""
    data: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "fields.yaml").read_bytes())
    return tuple(Field(**row) for row in data["fields"])


def read_fields(plan: Plan) -> Iterator[Field]:
    """The fields that this environment's exporters read."""
    full = plan.monitoring.gpu_metrics == "full"
    return (field for field in fields() if full or not field.full)


def csv(plan: Plan) -> str:
    """The list of fields as the exporter reads it: three columns, and no comma within one."""
    return "".join(f"{field.name}, {field.type}, {field.help}\n" for field in read_fields(plan))


def shared_pools(plan: Plan) -> tuple[Pool, ...]:
    """The pools with several pods to a GPU that are no MIG instances: time-sliced and MPS."""
    return tuple(pool for pool in plan.pools if pool.sharing.plugin_key is not None)


def settings(plan: Plan) -> dict[str, str]:
    """Variables of the exporter.

    It reads as often as Prometheus does: its own default, 30 s, would give every value twice at 15 s. On
    shared GPUs it names each pod, which it otherwise names one of (dcgm-exporter issues 340, 587, 594). Of
    resources it knows nvidia.com/gpu and those of MIG, and others by this variable alone (issue 151).
    """
    milliseconds = duration_seconds(plan.monitoring.dcgm_interval) * 1000
    return (
        {"DCGM_EXPORTER_INTERVAL": str(milliseconds)}
        | ({"KUBERNETES_VIRTUAL_GPUS": "true"} if shared_pools(plan) else {})
        | ({"NVIDIA_RESOURCE_NAMES": SHARED_RESOURCE} if SHARED_RESOURCE in plan.resources else {})
    )
