"""Pages as a DCGM exporter writes them, for GPUs that are not there: what rules and dashboards are tried on.

How GPUs, MIG instances and pods repeat values is the exporter's (dcgm-exporter d5e5f51, internal/pkg:
collector, rendermetrics, transformation/kubernetes.go); the values are made up, steady for a pod and a time.
Nothing may be decided by them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpupool.environment.catalog.models import GpuModel
from gpupool.generators.monitoring.exporter import Field

_MEAN_W = 250


@dataclass(frozen=True, slots=True)
class PodUse:
    """A pod on a GPU, or on a MIG instance."""

    namespace: str
    name: str
    use: float
    """Share of the time in which it uses what it holds, 0 to 1."""


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A MIG instance."""

    profile: str
    id: int
    memory_mib: int
    pods: tuple[PodUse, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU of a node: with MIG instances, or whole with its pods."""

    node: str
    index: int
    model: GpuModel
    instances: tuple[MigInstance, ...] = ()
    pods: tuple[PodUse, ...] = ()
    xids: Mapping[int, int] = field(default_factory=dict)
    """Errors of the last five minutes, by number."""

    @property
    def uuid(self) -> str:
        return f"GPU-{zlib.crc32(f'{self.node}/{self.index}'.encode()):08x}"


@dataclass(frozen=True, slots=True)
class Writer:
    """How an exporter names a shared GPU's pods, by its release and settings."""

    hostname: str
    """The label of the node's name."""
    virtual: bool
    """KUBERNETES_VIRTUAL_GPUS: each pod has a series; else one pod is named, whichever came last."""
    own: bool
    """Some figures are the pod's own, beside the GPU's, which names none; else the GPU's for each pod."""


PLAIN = Writer("Hostname", virtual=False, own=False)
VIRTUAL = Writer("Hostname", virtual=True, own=False)
"""Before 4.5.3-4.8.2, or without hostPID."""
LATEST = Writer("hostname", virtual=True, own=True)
"""From 4.6.0-4.8.3 on."""
_OWN = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED")


def page(cards: Iterable[Card], fields: Iterable[Field], second: float, writer: Writer = LATEST) -> str:
    """The page of a node's exporter at a time."""
    cards = list(cards)
    lines: list[str] = []
    for each in fields:
        rows = [row for card in cards for row in _rows(card, each, second, writer)]
        if rows:
            lines += [f"# HELP {each.name} {each.help}", f"# TYPE {each.name} {each.type}", *rows]
    return "\n".join(lines) + "\n"


def _rows(card: Card, each: Field, second: float, writer: Writer) -> Iterator[str]:
    if each.profiling and not card.model.profiling:
        return
    for part in card.instances or (None,):
        if part is not None and each.name == "DCGM_FI_DEV_GPU_UTIL":
            continue  # no instance has it
        pods = part.pods if part is not None else card.pods
        use = min(1.0, sum(pod.use for pod in (card.pods if each.of == "gpu" or part is None else part.pods)))
        if each.of == "gpu" and card.instances:
            use = sum(pod.use for instance in card.instances for pod in instance.pods) / len(card.instances)
        memory = part.memory_mib if part is not None else card.model.memory_mib
        for extra, value in _values(card, each, use, memory, second):
            whole = _labels(card, part, extra, writer)
            apart = len(pods) > 1 and writer.own
            if not pods or apart:
                yield f"{each.name}{{{whole}}} {value:g}"
            for pod in pods if writer.virtual else pods[-1:]:
                own = value
                if apart and each.name in _OWN:
                    own = value * pod.use / use if use else 0
                labels = f'{whole},container="main",namespace="{pod.namespace}",pod="{pod.name}"'
                yield f"{each.name}{{{labels}}} {own:g}"


def _labels(card: Card, part: MigInstance | None, extra: str, writer: Writer) -> str:
    labels = {
        "gpu": str(card.index),
        "UUID": card.uuid,
        "device": f"nvidia{card.index}",
        "modelName": card.model.title,
        **({"GPU_I_PROFILE": part.profile, "GPU_I_ID": str(part.id)} if part is not None else {}),
        writer.hostname: card.node,
    }
    return ",".join(f'{name}="{value}"' for name, value in labels.items()) + extra


def _values(card: Card, each: Field, use: float, memory: int, second: float) -> Iterator[tuple[str, float]]:
    """(further labels, value) of a field."""
    wave = use * (0.9 + 0.1 * math.sin(second / 300 + card.index))
    watts = 60 + 400 * wave
    match each.name:
        case "DCGM_EXP_XID_ERRORS_COUNT":
            yield from ((f',xid="{number}"', count) for number, count in (card.xids or {0: 0}).items())
        case "DCGM_EXP_CLOCK_EVENTS_COUNT":
            yield ',clock_event="gpu_idle"', 0 if use else 1
        case "DCGM_FI_DEV_GPU_UTIL":
            yield "", round(100 * wave)
        case "DCGM_FI_DEV_FB_USED":
            yield "", round(memory * (0.02 + 0.8 * use))
        case "DCGM_FI_DEV_FB_FREE":
            yield "", memory - round(memory * (0.02 + 0.8 * use)) - round(memory * 0.01)
        case "DCGM_FI_DEV_FB_RESERVED":
            yield "", round(memory * 0.01)
        case "DCGM_FI_DEV_GPU_TEMP" | "DCGM_FI_DEV_MEMORY_TEMP":
            yield "", round(35 + 40 * wave)
        case "DCGM_FI_DEV_SLOWDOWN_TEMP":
            yield "", 87
        case "DCGM_FI_DEV_POWER_USAGE":
            yield "", watts
        case "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION":
            yield "", _MEAN_W * second * 1000  # a counter never falls, whatever is used now
        case "DCGM_FI_DEV_SM_CLOCK" | "DCGM_FI_DEV_MEM_CLOCK":
            yield "", 1200
        case name if name.startswith("DCGM_FI_PROF_PCIE"):
            yield "", 6e9 * wave
        case name if name.startswith("DCGM_FI_PROF"):
            yield "", wave
        case _:
            yield "", 0
