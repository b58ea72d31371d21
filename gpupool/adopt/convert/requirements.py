"""Requirements of a Karpenter pool that are not about the machine: where nodes may be, how they are bought,
and labels of the user's own.

Karpenter takes what satisfies all requirements of a key (karpenter v1.14.1, pkg/scheduling/requirements.go).
What is left of the values that there are is worked out; where that can't be known, no pool is made,
since one without the requirement could start what the user excluded. Requirements about machines are for
`gpupool.adopt.convert.machines`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gpupool.adopt.convert import machines, node_labels
from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.machines import Selection
from gpupool.environment.spec.yaml_source import Loc, value_at

_CAPACITY_TYPE = "karpenter.sh/capacity-type"
_ZONE = "topology.kubernetes.io/zone"
_REGION = "topology.kubernetes.io/region"
_PLACES = (_ZONE, _REGION, "topology.k8s.aws/zone-id")
_AWS = "karpenter.k8s.aws/"
_RESERVATION = f"{_AWS}capacity-reservation-"
_BOUGHT = ("on-demand", "spot")
KEEP = "keep it unchanged, in addition to gpupool's pools"
UNSELECTED = "it uses reserved capacity, and its node class selects no reservation"


@dataclass(slots=True)
class Bought:
    """What requirements say of nodes beside their machines."""

    capacity_types: tuple[str, ...]
    """on-demand, spot or both, in this order; empty where nothing is bought but what is reserved."""
    may_be_reserved: bool = False
    """Whether a reservation that the node class selects would be used."""
    names_reserved: bool = False
    """Whether a requirement says so."""
    reservations: tuple[str, ...] = ()
    """Ids of those that alone may be used; empty: all that the node class selects."""
    zones: list[str] = field(default_factory=list)
    """Empty: any."""
    region: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    left_out: tuple[str, str] | None = None
    """Why no pool can be made, and what to do."""

    @property
    def only_reserved(self) -> bool:
        """Whether nothing else may start."""
        return self.may_be_reserved and not self.capacity_types

    @property
    def types(self) -> tuple[str, ...]:
        """All capacity types that a fleet of its own starts."""
        return ("reserved",) if self.only_reserved else self.capacity_types


@dataclass(frozen=True, slots=True)
class LabelRequirement(Part):
    """A label of nodes as Karpenter takes it where the key is one of its own: as a requirement of that value
    (karpenter v1.14.1, pkg/controllers/provisioning/scheduling/nodeclaimtemplate.go). All parts of it are
    where the label is."""

    def at(self, *path: str | int) -> Part:
        value = value_at(self.value, path)
        return replace(self, value=value, there=value is not None)

    def items(self) -> Iterator[tuple[str, Part]]:
        yield from ()

    def each(self) -> Iterator[Part]:
        for item in self.value if isinstance(self.value, list) else ():
            yield replace(self, value=item)

    def _leaves(self) -> Iterator[Loc]:
        return iter((self.loc,) if self.there else ())


def about_nodes(key: str) -> bool:
    """Whether Karpenter takes a label of that key, of a template, as a requirement of its nodes."""
    return machines.judges(key) or key in (_CAPACITY_TYPE, *_PLACES) or key.startswith(_AWS)


def of_label(key: str, label: Part) -> LabelRequirement:
    """The requirement that a label is."""
    value = {"key": key, "operator": "In", "values": [label.value]}
    return LabelRequirement(label.account, label.page, label.loc, value)


def read(selection: Selection, spot_by_default: bool) -> Bought:
    """What the requirements in `selection.other` say. `spot_by_default`: whether a pool that says nothing of
    the capacity type may start spot nodes."""
    bought = Bought(_BOUGHT if spot_by_default else _BOUGHT[:1], may_be_reserved=spot_by_default)
    for key, parts in selection.other.items():
        if key == _CAPACITY_TYPE:
            _capacity_types(bought, parts)
        elif key in (f"{_RESERVATION}id", f"{_RESERVATION}type"):
            _reservation(bought, key, parts)
        elif key.startswith(_RESERVATION):
            bought.left_out = (f"can't resolve which reservations it may use: {key}", KEEP)
        elif key in _PLACES:
            _place(bought, key, parts)
        elif node_labels.owned(key):
            _of_machines(bought, key, parts, selection.named)
        else:
            _own_label(bought, key, parts)
    return bought


def _capacity_types(bought: Bought, parts: Sequence[Part]) -> None:
    types = _remaining((*_BOUGHT, "reserved"), parts)
    if types is None:
        return
    _use(parts)
    bought.capacity_types = tuple(name for name in _BOUGHT if name in types)
    bought.may_be_reserved = "reserved" in types
    bought.names_reserved = bought.may_be_reserved and "reserved" in _listed(parts)
    if not bought.capacity_types and not bought.may_be_reserved:
        bought.left_out = (f"no capacity type meets its requirements for {_CAPACITY_TYPE}", "correct them")


def _reservation(bought: Bought, key: str, parts: Sequence[Part]) -> None:
    """Nodes of no reservation have none of these labels."""
    ids = _remaining(_listed(parts), parts)
    if ids is None:
        return
    _use(parts)
    bought.capacity_types, bought.may_be_reserved = (), True
    if key.endswith("id"):
        bought.reservations = ids


def _place(bought: Bought, key: str, parts: Sequence[Part]) -> None:
    """Zones, by name or id, and regions: all there are is not known here, so that some must be named."""
    listed = _listed(parts)
    places = _remaining(listed, parts)
    anywhere = not listed and all(part.word("operator") == "Exists" for part in parts)
    if places is None:
        return
    if key == _ZONE and (places or anywhere):
        bought.zones = list(places)
    elif key == _REGION and (len(places) == 1 or anywhere):
        bought.region = places[0] if places else None
    elif not anywhere:
        what = f"{key} {'; '.join(map(_spelled, parts))}"
        remediation = f"list the remaining zones in {_ZONE} with operator In, and convert again"
        bought.left_out = (f"can't resolve the zones of its nodes: {what}", remediation)
    _use(parts)


def _of_machines(bought: Bought, key: str, parts: Sequence[Part], named: bool) -> None:
    """A property of machines that the catalog does not have: named machines are taken to satisfy it."""
    for part in parts:
        part.left("gpupool does not support this requirement", "list instance types that meet it")
    if not named and any(part.word("operator") != "Exists" for part in parts):
        what = f"{key} {'; '.join(map(_spelled, parts))}"
        remediation = "list the instance types in node.kubernetes.io/instance-type, and convert again"
        bought.left_out = (f"can't resolve which machines it may start: {what}", remediation)


def _own_label(bought: Bought, key: str, parts: Sequence[Part]) -> None:
    """A label of the user's, which nodes get if it has one value left."""
    values = _remaining(_listed(parts), parts)
    if values is not None and len(values) == 1 and node_labels.taken(key, values[0]):
        bought.labels[key] = values[0]
        _use(parts)
        return
    for part in parts:
        part.left(
            "gpupool does not support this requirement",
            "label the pool's nodes with one value (pools[].labels)",
        )


def _listed(parts: Sequence[Part]) -> tuple[str, ...]:
    """The values that requirements name as allowed, each once."""
    texts = (text for part in parts if part.word("operator") == "In" for text in _texts(part))
    return tuple(dict.fromkeys(texts))


def _remaining(values: tuple[str, ...], parts: Sequence[Part]) -> tuple[str, ...] | None:
    """Which of `values` satisfy all of the requirements; None where one of them is none, which is listed."""
    for part in parts:
        operator, texts = part.word("operator"), _texts(part)
        if operator in ("In", "NotIn") and texts:
            values = tuple(value for value in values if (value in texts) == (operator == "In"))
        elif operator == "DoesNotExist":
            values = ()
        elif operator != "Exists":
            part.wrong("not a valid Karpenter requirement here", "write In, NotIn or Exists")
            return None
    return values


def _texts(part: Part) -> list[str]:
    return [item.value for item in part.at("values").each() if isinstance(item.value, str)]


def _use(parts: Sequence[Part]) -> None:
    for part in parts:
        part.uses("key", "operator", "values")


def _spelled(part: Part) -> str:
    return f"{part.word('operator')} {', '.join(_texts(part))}".strip()
