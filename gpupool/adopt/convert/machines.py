"""Which machines a Karpenter pool may start: its requirements, compared with the catalog.

Karpenter's labels for instance types by karpenter-provider-aws v1.14.1, pkg/apis/v1/labels.go. Only types
with an NVIDIA GPU are known here; other types that a pool may start are listed as left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.karpenter_fields import OLD_LABELS
from gpupool.adopt.convert.values import as_text, as_whole
from gpupool.environment.catalog.models import GpuModel, InstanceType
from gpupool.environment.catalog.project import catalog_here

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_AWS = "karpenter.k8s.aws/instance-"
_FAMILY = re.compile(r"(?P<category>[a-z]+)(?P<generation>[0-9]+).*")
_NUMERIC = ("Gt", "Lt", "Gte", "Lte")


@dataclass(frozen=True, slots=True)
class MachineType:
    """One instance type and the GPU in it."""

    gpu: GpuModel
    type: InstanceType


def _family(machine: MachineType) -> str:
    return machine.type.name.partition(".")[0]


def _match(machine: MachineType, group: str) -> str:
    match = _FAMILY.fullmatch(_family(machine))
    return match[group] if match else ""


_ATTRIBUTES: dict[str, Callable[[MachineType], str | int]] = {
    INSTANCE_TYPE: lambda m: m.type.name,
    f"{_AWS}family": _family,
    f"{_AWS}size": lambda m: m.type.name.partition(".")[2],
    f"{_AWS}category": lambda m: _match(m, "category"),
    f"{_AWS}generation": lambda m: int(_match(m, "generation") or 0),
    f"{_AWS}gpu-name": lambda m: m.gpu.karpenter_gpu_name or "",
    f"{_AWS}gpu-manufacturer": lambda _: "nvidia",
    f"{_AWS}gpu-count": lambda m: m.type.gpus,
    f"{_AWS}gpu-memory": lambda m: m.type.gpu_memory_mib,
    f"{_AWS}cpu": lambda m: m.type.vcpus,
    f"{_AWS}memory": lambda m: int(m.type.memory_gib * 1024),
    f"{_AWS}hypervisor": lambda m: "" if m.type.name.partition(".")[2].startswith("metal") else "nitro",
    "kubernetes.io/arch": lambda m: m.type.arch,
    "kubernetes.io/os": lambda _: "linux",
}
_NAMES_GPUS = (INSTANCE_TYPE, *(f"{_AWS}{name}" for name in ("family", "category")))
"""Keys that ask for a GPU if one of their values has one."""
_NEEDS_GPUS = tuple(f"{_AWS}gpu-{name}" for name in ("name", "manufacturer", "count", "memory"))


@dataclass(slots=True)
class Selection:
    """What requirements allow."""

    machines: list[MachineType]
    asks_for_gpus: bool = False
    """Whether a requirement names GPUs or machines that have them."""
    refuses_gpus: bool = False
    """Whether one of them excludes every machine with a GPU."""
    enumerated: list[str] = field(default_factory=list)
    """Requirements that instance types were worked out from, for the notes."""
    unusable: list[str] = field(default_factory=list)
    """GPU machines that are wanted and that no pool can have, each with why."""
    named: bool = False
    """Whether instance types are named one by one."""
    other: dict[str, list[Part]] = field(default_factory=dict)
    """Requirements that are not about the machine, by key under its present name."""


def judges(key: str) -> bool:
    """Whether a requirement of that key is about the machine, as far as the catalog knows machines."""
    return OLD_LABELS.get(key, key) in _ATTRIBUTES


def select(requirements: list[Part]) -> Selection:
    """The machines that satisfy all of `requirements`; requirements about anything else are handed on."""
    everything = [
        MachineType(gpu, row) for gpu in catalog_here().models.values() for row in gpu.instance_types
    ]
    selection = Selection([machine for machine in everything if machine.type.provider == "aws"])
    named = list[str]()
    for part in requirements:
        name = _key(part)
        if name not in _ATTRIBUTES:
            selection.other.setdefault(name, []).append(part)
            continue
        test = test_of(part)
        if test is None:
            part.wrong("not a valid Karpenter requirement", "write key, operator and values")
            continue
        part.uses("key", "operator", "values")
        _judge(selection, part, name, everything, test)
        selection.machines = [machine for machine in selection.machines if test(machine)]
        if name == INSTANCE_TYPE and _operator(part) == "In":
            named += [str(value.value) for value in part.at("values").each()]
        elif name not in ("kubernetes.io/arch", "kubernetes.io/os", f"{_AWS}hypervisor"):
            selection.enumerated.append(f"{name.removeprefix(_AWS)} {_operator(part)} {_values(part)}")
    selection.named = bool(named)
    if named:
        order = {name: number for number, name in reversed(list(enumerate(named)))}
        selection.machines.sort(key=lambda m: order[m.type.name])
        selection.enumerated = []
    else:
        selection.machines = [m for m in selection.machines if m.type.karpenter]
    return selection


def _judge(
    found: Selection,
    part: Part,
    name: str,
    everything: list[MachineType],
    test: Callable[[MachineType], bool],
) -> None:
    """Note whether the requirement is about GPUs, and values that are not."""
    values = list(part.at("values").each()) if _operator(part) == "In" else []
    reasons = {str(value.value): catalog_here().against(str(value.value)) for value in values}
    if name not in (*_NAMES_GPUS, f"{_AWS}gpu-name"):
        reasons = {}
    some = any(test(machine) for machine in everything) or any(reasons.values())
    found.refuses_gpus |= not some
    found.asks_for_gpus |= some and (name in _NEEDS_GPUS or (name in _NAMES_GPUS and _operator(part) == "In"))
    for value in values if reasons and some else ():
        known = [machine for machine in everything if _ATTRIBUTES[name](machine) == value.value]
        reason = reasons[str(value.value)]
        # Machines that are named one by one stay in the file, where `validate` reports what is wrong with
        # them.
        if reason and not (known and name == INSTANCE_TYPE):
            found.unusable.append(f"{value.value}: {reason}")
            value.left(reason)
        elif not known and name in _NAMES_GPUS:
            value.left(
                f"{value.value} has no NVIDIA GPU in the catalog, so it is in no GPU pool",
                "keep a separate NodePool for machines without GPUs",
            )


def _key(part: Part) -> str:
    """The label that a requirement is about, under its present name."""
    return OLD_LABELS.get(part.word("key"), part.word("key"))


def _operator(part: Part) -> str:
    return part.word("operator")


def _values(part: Part) -> str:
    return ", ".join(str(item.value) for item in part.at("values").each())


def test_of(part: Part) -> Callable[[MachineType], bool] | None:
    """The requirement as a test of a machine; None if it is not about machines, or Karpenter would not accept
    it."""
    attribute, operator = _ATTRIBUTES.get(_key(part)), _operator(part)
    if attribute is None:
        return None
    if operator in ("Exists", "DoesNotExist"):
        return lambda _: operator == "Exists"
    values = [as_text(item.value) for item in part.at("values").each()]
    if not values or None in values:
        return None
    if operator in ("In", "NotIn"):
        return lambda machine: (str(attribute(machine)) in values) == (operator == "In")
    bound = as_whole(values[0])
    if operator not in _NUMERIC or len(values) != 1 or bound is None:
        return None
    return lambda machine: _compare(operator, attribute(machine), bound)


def _compare(operator: str, value: str | int, bound: int) -> bool:
    if not isinstance(value, int):
        return False
    results = {"Gt": value > bound, "Lt": value < bound, "Gte": value >= bound, "Lte": value <= bound}
    return results[operator]


def by_model(machines: list[MachineType]) -> Iterator[tuple[GpuModel, list[InstanceType]]]:
    """The machines of each GPU model, in the order in which models first appear."""
    groups: dict[str, list[MachineType]] = {}
    for machine in machines:
        groups.setdefault(machine.gpu.key, []).append(machine)
    for group in groups.values():
        types = list(dict.fromkeys(machine.type.name for machine in group))
        yield group[0].gpu, [group[0].gpu.instance_type(name) for name in types]
